/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/note.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tutti/plugin.h>

#include "base/error.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#elif defined(__riscv)
#define MACHINE EM_RISCV
#elif defined(__powerpc64__)
#define MACHINE EM_PPC64
#else
#error "name this machine's ELF number here"
#endif

enum {
    SEGMENTS_MAX = 256,   /* program headers of one file; linkers write about a dozen */
    NOTES_MAX = 16384,    /* bytes of notes in one segment; linkers write some hundred */
    NOTE_OWNER_BYTES = 6, /* "tutti" and its NUL */
    NOTE_DESCRIPTION_BYTES = 8
};

struct file {
    int fd;
    uint64_t size;
};

static bool inside(const struct file *file, uint64_t offset, uint64_t bytes)
{
    return offset <= file->size && bytes <= file->size - offset;
}

static tutti_status truncated(const struct file *file)
{
    return error_set(TUTTI_ERR_PLUGIN,
                     "the file is truncated: it has %llu bytes, and its ELF headers claim more; "
                     "install it again",
                     (unsigned long long)file->size);
}

static tutti_status read_at(const struct file *file, uint64_t offset, void *ret_bytes, size_t bytes)
{
    unsigned char *at = ret_bytes;

    if (!inside(file, offset, bytes))
        return truncated(file);
    while (bytes > 0) {
        ssize_t n = pread(file->fd, at, bytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(TUTTI_ERR_PLUGIN, errno, "cannot read the file");
        if (n == 0)
            return truncated(file);
        at += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return TUTTI_OK;
}

static tutti_status read_header(const struct file *file, Elf64_Ehdr *ret_header)
{
    Elf64_Ehdr header;
    const uint16_t one = 1;
    const unsigned char data = *(const unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;

    if (file->size < sizeof header)
        return error_set(TUTTI_ERR_PLUGIN, "not a shared object: the file has %llu bytes",
                         (unsigned long long)file->size);

    tutti_status status = read_at(file, 0, &header, sizeof header);
    if (status)
        return status;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG))
        return error_set(TUTTI_ERR_PLUGIN, "not a shared object: it does not begin as an ELF file");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != data ||
        header.e_machine != MACHINE)
        return error_set(TUTTI_ERR_PLUGIN,
                         "built for another machine: ELF class %u, byte order %u, machine %u; this "
                         "process is %u, %u, %u",
                         header.e_ident[EI_CLASS], header.e_ident[EI_DATA], header.e_machine,
                         ELFCLASS64, data, MACHINE);
    if (header.e_type != ET_DYN || header.e_phentsize != sizeof(Elf64_Phdr) ||
        header.e_phnum == 0 || header.e_phnum > SEGMENTS_MAX)
        return error_set(TUTTI_ERR_PLUGIN,
                         "not a shared object: ELF type %u with %u segments of %u bytes",
                         header.e_type, header.e_phnum, header.e_phentsize);
    if (!inside(file, header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize))
        return truncated(file);
    *ret_header = header;
    return TUTTI_OK;
}

/* Looks for our note among `bytes` of notes; what does not parse ends the search. */
static bool find_note(const unsigned char *notes, size_t bytes, size_t align, uint32_t ret_abi[2])
{
    size_t at = 0;

    while (bytes - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;

        /* All of this is below 2^34, so it cannot overflow. */
        uint64_t name_bytes = ((uint64_t)note.n_namesz + align - 1) & ~(uint64_t)(align - 1);
        uint64_t description_bytes = ((uint64_t)note.n_descsz + align - 1) & ~(uint64_t)(align - 1);
        if (name_bytes > bytes - at || note.n_descsz > bytes - at - name_bytes)
            return false;
        if (note.n_type == 1 && note.n_namesz == NOTE_OWNER_BYTES &&
            note.n_descsz == NOTE_DESCRIPTION_BYTES &&
            !memcmp(notes + at, "tutti", NOTE_OWNER_BYTES)) {
            memcpy(ret_abi, notes + at + name_bytes, NOTE_DESCRIPTION_BYTES);
            return true;
        }
        if (description_bytes > bytes - at - name_bytes)
            return false;
        at += (size_t)(name_bytes + description_bytes);
    }
    return false;
}

/* `ret_found` is left alone when the segment holds no note of ours. */
static tutti_status search_segment(const struct file *file, const Elf64_Phdr *segment,
                                   bool *ret_found, uint32_t ret_abi[2])
{
    unsigned char notes[NOTES_MAX];

    if (!inside(file, segment->p_offset, segment->p_filesz))
        return truncated(file);
    if (segment->p_type != PT_NOTE || segment->p_filesz > sizeof notes || *ret_found)
        return TUTTI_OK;

    tutti_status status = read_at(file, segment->p_offset, notes, (size_t)segment->p_filesz);
    if (!status)
        *ret_found =
            find_note(notes, (size_t)segment->p_filesz, segment->p_align == 8 ? 8 : 4, ret_abi);
    return status;
}

tutti_status note_read(int fd, uint32_t *ret_major, uint32_t *ret_minor)
{
    struct stat st;
    Elf64_Ehdr header = {.e_phnum = 0};
    uint32_t abi[2] = {0, 0};
    bool found = false;

    if (fstat(fd, &st))
        return error_set_errno(TUTTI_ERR_PLUGIN, errno, "cannot look at the file");
    if (!S_ISREG(st.st_mode))
        return error_set(TUTTI_ERR_PLUGIN, "not a regular file");

    const struct file file = {fd, (uint64_t)st.st_size};
    tutti_status status = read_header(&file, &header);
    for (unsigned i = 0; !status && i < header.e_phnum; i++) {
        Elf64_Phdr segment;

        if (header.e_phoff > file.size)
            return truncated(&file);
        status = read_at(&file, header.e_phoff + i * sizeof segment, &segment, sizeof segment);
        if (!status)
            status = search_segment(&file, &segment, &found, abi);
    }
    if (status)
        return status;
    if (!found)
        return error_set(TUTTI_ERR_PLUGIN,
                         "not a tutti plugin: it has no ELF note of owner \"tutti\"; plugins write "
                         "it with TUTTI_PLUGIN_EXPORT of <tutti/plugin.h>");
    *ret_major = abi[0];
    *ret_minor = abi[1];
    return TUTTI_OK;
}
