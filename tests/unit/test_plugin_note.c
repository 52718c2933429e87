/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tutti/plugin.h>

#include "plugin/note.h"

/* The smallest file with a note: header, one segment, the note. Tests spoil a copy of it. */
struct image {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    struct {
        Elf64_Nhdr head;
        char name[8];
        uint32_t words[2];
    } other;
    tutti_plugin_note note;
};

static struct image good_image(void)
{
#if defined(__x86_64__)
    const uint16_t machine = EM_X86_64;
#elif defined(__aarch64__)
    const uint16_t machine = EM_AARCH64;
#endif
    return (struct image){
        .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                   .e_type = ET_DYN,
                   .e_machine = machine,
                   .e_phoff = offsetof(struct image, segment),
                   .e_phentsize = sizeof(Elf64_Phdr),
                   .e_phnum = 1},
        .segment = {.p_type = PT_NOTE,
                    .p_offset = offsetof(struct image, other),
                    .p_filesz = sizeof(struct image) - offsetof(struct image, other),
                    .p_align = 4},
        .other = {{8, 8, 1}, "Another", {1, 2}},
        .note = {6, 8, 1, "tutti", {3, 9}}};
}

static tutti_status read_image(const void *image, size_t bytes, uint32_t ret_abi[2])
{
    int fd = memfd_create("note", MFD_CLOEXEC);

    cr_assert(fd >= 0 && write(fd, image, bytes) == (ssize_t)bytes);
    tutti_status status = note_read(fd, &ret_abi[0], &ret_abi[1]);
    close(fd);
    return status;
}

Test(plugin_note, the_note_is_found_behind_others, .timeout = 5)
{
    struct image image = good_image();
    uint32_t abi[2] = {0, 0};

    cr_assert_eq(read_image(&image, sizeof image, abi), TUTTI_OK, "%s", tutti_last_error());
    cr_assert_eq(abi[0], 3);
    cr_assert_eq(abi[1], 9);
}

Test(plugin_note, a_spoiled_header_or_note_is_refused_in_words, .timeout = 5)
{
#define SPOILED(member, value, words)                                                              \
    {                                                                                              \
        offsetof(struct image, member), sizeof good.member, value, words                           \
    }
    const struct image good = good_image();
    const struct {
        size_t offset, bytes;
        uint64_t value;
        const char *words;
    } cases[] = {
        SPOILED(header.e_ident[0], 0, "does not begin as an ELF file"),
        SPOILED(header.e_ident[EI_CLASS], ELFCLASS32, "another machine"),
        SPOILED(header.e_ident[EI_DATA], ELFDATA2MSB, "another machine"),
        SPOILED(header.e_machine, EM_S390, "another machine"),
        SPOILED(header.e_type, ET_EXEC, "not a shared object"),
        SPOILED(header.e_phentsize, 1, "not a shared object"),
        SPOILED(header.e_phnum, 0, "not a shared object"),
        SPOILED(header.e_phnum, 0xffff, "not a shared object"),
        SPOILED(header.e_phnum, 200, "truncated"),
        SPOILED(header.e_phoff, UINT64_MAX, "truncated"),
        SPOILED(header.e_phoff, UINT64_MAX - 55, "truncated"),
        SPOILED(header.e_shoff, UINT64_MAX, "truncated"),
        SPOILED(segment.p_offset, UINT64_MAX - 8, "truncated"),
        SPOILED(segment.p_filesz, UINT64_MAX, "truncated"),
        SPOILED(segment.p_type, PT_LOAD, "no ELF note"),
        SPOILED(other.head.n_namesz, UINT32_MAX, "no ELF note"),
        SPOILED(other.head.n_descsz, UINT32_MAX, "no ELF note"),
        SPOILED(note.desc_bytes, 4, "no ELF note"),
        SPOILED(note.desc_bytes, 12, "no ELF note"),
        SPOILED(note.type, 2, "no ELF note"),
        SPOILED(note.name[0], 'T', "no ELF note"),
    };
#undef SPOILED

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct image image = good;
        uint32_t abi[2];

        memcpy((char *)&image + cases[i].offset, &cases[i].value, cases[i].bytes);
        cr_expect_eq(read_image(&image, sizeof image, abi), TUTTI_ERR_PLUGIN, "case %zu", i);
        cr_expect_not_null(strstr(tutti_last_error(), cases[i].words), "case %zu: %s", i,
                           tutti_last_error());
    }
}

Test(plugin_note, every_shorter_file_is_refused, .timeout = 10)
{
    const struct image image = good_image();
    uint32_t abi[2];

    for (size_t bytes = 0; bytes < sizeof image; bytes++)
        cr_expect_eq(read_image(&image, bytes, abi), TUTTI_ERR_PLUGIN, "%zu bytes", bytes);
}
