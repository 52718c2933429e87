/* SPDX-License-Identifier: Apache-2.0 */
/* The facts in a plugin's file before any of it runs: its name, note, symbols and segments. It may
 * be any file, so every offset of the ELF format is checked. */
#include "check/check.h"

#include <elf.h>
#include <string.h>

#include <tutti/plugin.h>

struct image {
    const uint8_t *bytes;
    gsize size;
    Elf64_Ehdr header;
    uint64_t symbols, symbol_count, strings, strings_bytes; /* of .dynsym and .dynstr */
    uint64_t dynamic, dynamic_count;
};

static struct check_finding passed(void)
{
    return (struct check_finding){CHECK_PASSED, NULL, false};
}

static struct check_finding found(enum check_result result, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

static struct check_finding found(enum check_result result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    struct check_finding finding = {result, g_strdup_vprintf(format, args), false};
    va_end(args);
    return finding;
}

static bool copy(const struct image *image, uint64_t offset, void *ret_data, size_t bytes)
{
    if (offset > image->size || bytes > image->size - offset)
        return false;
    memcpy(ret_data, image->bytes + offset, bytes);
    return true;
}

static bool section_of(const struct image *image, unsigned index, Elf64_Shdr *ret_section)
{
    return copy(image, image->header.e_shoff + (uint64_t)index * sizeof *ret_section, ret_section,
                sizeof *ret_section);
}

/* Finds the dynamic symbols and the dynamic section; without section headers nothing is found. */
static bool parse(const guint8 *bytes, gsize size, struct image *ret_image)
{
    struct image image = {.bytes = bytes, .size = size};

    if (!copy(&image, 0, &image.header, sizeof image.header) ||
        memcmp(image.header.e_ident, ELFMAG, SELFMAG) != 0 ||
        image.header.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    for (unsigned i = 0; i < image.header.e_shnum; i++) {
        Elf64_Shdr section, linked;

        if (!section_of(&image, i, &section))
            return false;
        if (section.sh_type == SHT_DYNAMIC) {
            image.dynamic = section.sh_offset;
            image.dynamic_count = section.sh_size / sizeof(Elf64_Dyn);
        }
        if (section.sh_type != SHT_DYNSYM || !section_of(&image, section.sh_link, &linked))
            continue;
        image.symbols = section.sh_offset;
        image.symbol_count = section.sh_size / sizeof(Elf64_Sym);
        image.strings = linked.sh_offset;
        image.strings_bytes = linked.sh_size;
    }
    *ret_image = image;
    return image.symbols && image.dynamic;
}

static const char *string_at(const struct image *image, uint64_t offset)
{
    const uint64_t at = image->strings + offset;

    if (offset >= image->strings_bytes || image->strings > image->size ||
        image->strings_bytes > image->size - image->strings ||
        !memchr(image->bytes + at, 0, image->strings_bytes - offset))
        return "?";
    return (const char *)image->bytes + at;
}

typedef struct check_finding image_check(const struct check_subject *subject,
                                         const struct image *image);

static struct check_finding with_image(const struct check_subject *subject, image_check *look)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GMappedFile) file = g_mapped_file_new(subject->path, FALSE, &error);
    struct image image;

    if (!file)
        return found(CHECK_FAILED, "%s", error->message);
    if (!parse((const guint8 *)g_mapped_file_get_contents(file), g_mapped_file_get_length(file),
               &image))
        return found(CHECK_FAILED, "not a 64-bit shared object with dynamic symbols");
    return look(subject, &image);
}

/* The names of the dynamic symbols that others see (`defined`), or that it takes from others. */
static GPtrArray *symbols_of(const struct image *image, bool defined)
{
    GPtrArray *names = g_ptr_array_new();

    for (uint64_t i = 1; i < image->symbol_count; i++) {
        Elf64_Sym symbol;

        if (!copy(image, image->symbols + i * sizeof symbol, &symbol, sizeof symbol))
            break;
        if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
            defined != (symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS))
            continue;
        if (!defined && symbol.st_shndx == SHN_ABS)
            continue;
        g_ptr_array_add(names, (gpointer)string_at(image, symbol.st_name));
    }
    return names;
}

static char *joined(const GPtrArray *names)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < names->len && i < 8; i++)
        g_string_append_printf(text, "%s%s", i ? ", " : "", (const char *)names->pdata[i]);
    if (names->len > 8)
        g_string_append_printf(text, " and %u more", names->len - 8);
    return g_string_free(text, FALSE);
}

/* ---- the checks ------------------------------------------------------------------------------ */

struct check_finding check_file_name(const struct check_subject *subject)
{
    if (!subject->name)
        return found(CHECK_FAILED,
                     "a plugin's file is called libtutti-NAME.so, NAME being a letter of a-z, then "
                     "a-z 0-9 _ -, 31 at most");
    return passed();
}

static struct check_finding look_at_exports(const struct check_subject *subject,
                                            const struct image *image)
{
    g_autoptr(GPtrArray) names = symbols_of(image, true);
    bool descriptor = false;

    (void)subject;
    for (guint i = 0; i < names->len;) {
        bool ours = strcmp(names->pdata[i], TUTTI_PLUGIN_SYMBOL) == 0;

        descriptor |= ours;
        /* AddressSanitizer gives each exported object a name of its own. */
        if (ours || g_str_has_prefix(names->pdata[i], "__odr_asan."))
            g_ptr_array_remove_index(names, i);
        else
            i++;
    }
    if (!descriptor)
        return found(CHECK_FAILED, "it does not export %s; write TUTTI_PLUGIN_EXPORT",
                     TUTTI_PLUGIN_SYMBOL);
    if (names->len) {
        g_autofree char *list = joined(names);

        return found(CHECK_FAILED,
                     "it exports more than %s: %s; compile with -fvisibility=hidden, and link "
                     "static libraries with -Wl,--exclude-libs,ALL",
                     TUTTI_PLUGIN_SYMBOL, list);
    }
    return passed();
}

struct check_finding check_file_exports(const struct check_subject *subject)
{
    return with_image(subject, look_at_exports);
}

static struct check_finding look_at_links(const struct check_subject *subject,
                                          const struct image *image)
{
    g_autoptr(GPtrArray) taken = symbols_of(image, false);

    (void)subject;
    for (uint64_t i = 0; i < image->dynamic_count; i++) {
        Elf64_Dyn entry;

        if (!copy(image, image->dynamic + i * sizeof entry, &entry, sizeof entry) ||
            entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_NEEDED &&
            g_str_has_prefix(string_at(image, entry.d_un.d_val), "libtutti"))
            return found(CHECK_FAILED,
                         "it is linked with %s; a plugin gets all it needs from tutti_host",
                         string_at(image, entry.d_un.d_val));
    }
    for (guint i = 0; i < taken->len; i++)
        if (g_str_has_prefix(taken->pdata[i], "tutti_"))
            return found(CHECK_FAILED,
                         "it takes the symbol %s from the program that loads it; use tutti_host",
                         (const char *)taken->pdata[i]);
    return passed();
}

struct check_finding check_file_links(const struct check_subject *subject)
{
    return with_image(subject, look_at_links);
}

static struct check_finding look_at_relocations(const struct check_subject *subject,
                                                const struct image *image)
{
    (void)subject;
    for (uint64_t i = 0; i < image->dynamic_count; i++) {
        Elf64_Dyn entry;

        if (!copy(image, image->dynamic + i * sizeof entry, &entry, sizeof entry) ||
            entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_TEXTREL || (entry.d_tag == DT_FLAGS && entry.d_un.d_val & DF_TEXTREL))
            return found(CHECK_FAILED,
                         "it has text relocations, so its code is writable while it is loaded; "
                         "compile everything in it with -fPIC");
    }
    return passed();
}

struct check_finding check_file_relocations(const struct check_subject *subject)
{
    return with_image(subject, look_at_relocations);
}

static struct check_finding look_at_stack(const struct check_subject *subject,
                                          const struct image *image)
{
    bool said = false;

    (void)subject;
    for (unsigned i = 0; i < image->header.e_phnum; i++) {
        Elf64_Phdr segment;

        if (!copy(image, image->header.e_phoff + i * sizeof segment, &segment, sizeof segment))
            break;
        if (segment.p_type == PT_LOAD && segment.p_flags & PF_W && segment.p_flags & PF_X)
            return found(CHECK_FAILED, "a segment of it is writable and executable");
        if (segment.p_type != PT_GNU_STACK)
            continue;
        said = true;
        if (segment.p_flags & PF_X)
            return found(CHECK_FAILED,
                         "it makes the stack of the whole process executable; assembly needs "
                         "\".section .note.GNU-stack\", or link with -z noexecstack");
    }
    return said ? passed()
                : found(CHECK_FAILED, "it does not say that its stack is not executable (no "
                                      "PT_GNU_STACK), so the stack becomes executable");
}

struct check_finding check_file_stack(const struct check_subject *subject)
{
    return with_image(subject, look_at_stack);
}

/* Calls by which a library ends or changes the process that it was loaded into. That it can make
 * them is no proof that it does. */
static struct check_finding look_at_calls(const struct check_subject *subject,
                                          const struct image *image)
{
    static const char *const suspicious[] = {
        "abort",          "exit",       "_exit",    "_Exit",        "quick_exit",
        "__assert_fail",  "atexit",     "on_exit",  "signal",       "sigaction",
        "sigprocmask",    "setlocale",  "umask",    "chdir",        "fchdir",
        "setenv",         "putenv",     "unsetenv", "clearenv",     "setrlimit",
        "feenableexcept", "fesetround", "system",   "__cxa_atexit", NULL};
    g_autoptr(GPtrArray) taken = symbols_of(image, false);
    g_autoptr(GPtrArray) seen = g_ptr_array_new();

    (void)subject;
    for (guint i = 0; i < taken->len; i++)
        if (g_strv_contains(suspicious, taken->pdata[i]))
            g_ptr_array_add(seen, taken->pdata[i]);
    if (!seen->len)
        return passed();
    g_autofree char *list = joined(seen);
    return found(CHECK_REMARK,
                 "it can call %s; a plugin neither ends the process nor changes what belongs to it",
                 list);
}

struct check_finding check_file_calls(const struct check_subject *subject)
{
    return with_image(subject, look_at_calls);
}
