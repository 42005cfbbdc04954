# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that are small to make and large to read: ELF files in which a thread of the victim
`hostile code FILE` stands, and whose symbols, lines, unwind information or compressed sections say
more than anybody should believe. Knows nothing of the tool."""
import lzma
import os
import struct
import zlib

CODE, CODE_SIZE, DATA = 0x1000, 0x100, 0x2000
# What of a file is of a processor: its number in ELF; code that waits (targets/instructions.h); the registers that DWARF
# names for the stack pointer and the return address; the rules where a function was just called, and where one has
# saved its return address below the CFA.
MACHINE, WAITING, SP, RA, CALLED, SAVED = {
    "x86_64": (62, "b8220000000f05ebf7", 7, 16, b"\x0c\x07\x08\x90\x01", b"\x0c\x07\x08\x90\x01"),
    "aarch64": (183, "000080d2010080d2020080d2030080d2280980d2010000d4faffff17", 31, 30,
                b"\x0c\x1f\x00", b"\x0c\x1f\x10\x9e\x01"),
}[os.uname().machine]
BREG_SP = bytes([0x70 + SP])

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB = 1, 2, 3
SHF_ALLOC, SHF_COMPRESSED = 2, 0x800
AT_SIBLING, AT_NAME, AT_LOW_PC, AT_HIGH_PC, AT_ORIGIN, AT_RANGES, AT_STMT_LIST = \
    0x01, 0x03, 0x11, 0x12, 0x31, 0x55, 0x10
FORM_ADDR, FORM_DATA4, FORM_STRING, FORM_REF4, FORM_SEC_OFFSET = 0x01, 0x06, 0x08, 0x13, 0x17
TAG_UNIT, TAG_FUNCTION, TAG_INLINED, TAG_BLOCK = 0x11, 0x2e, 0x1d, 0x0b


def uleb(value):
    out = bytearray()
    while True:
        out.append(value & 0x7f | (0x80 if value > 0x7f else 0))
        value >>= 7
        if not value:
            return bytes(out)


def symbol(name, start=CODE, size=CODE_SIZE, info=0x12):
    return struct.pack("<IBBHQQ", name, info, 0, 1, start, size)


def compressed(size, block=1 << 20, byte=b"\0"):
    """A section that says it inflates to `size` bytes, and does, but for its checksum."""
    engine = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = engine.compress(byte * block) + engine.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    return struct.pack("<IIQQ", 1, 0, size, 1) + b"\x78\xda" + piece * (size // block) + end


class File:
    """An ELF file under construction: one executable segment, and sections as they are added."""

    def __init__(self):
        self.sections = []  # (name, type, flags, data, link, entsize, size, address)
        self.links = {}
        self.search_table = None

    def add(self, name, data, kind=SHT_PROGBITS, flags=0, link=0, entsize=0, size=None):
        self.sections.append([name, kind, flags, data, link, entsize, size])
        return len(self.sections)

    def symbols(self, entries, strings):
        text = self.add(".strtab", strings, SHT_STRTAB)
        self.add(".symtab", symbol(0, 0, 0, 0) + entries, SHT_SYMTAB, link=text, entsize=24)
        return self

    def write(self, path, count=None, length=None):
        """`count`: of sections, said in the first one; `length`: of the file, sparse."""
        names, offsets, at = bytearray(b"\0"), [], DATA
        for section in self.sections:
            offsets.append(len(names))
            names += section[0].encode() + b"\0"
        rows = [bytes(64)]
        with open(path, "wb") as f:
            for section, name in zip(self.sections, offsets):
                _, kind, flags, data, link, entsize, size = section
                f.seek(at)
                f.write(data)
                rows.append(struct.pack("<IIQQQQIIQQ", name, kind, flags,
                                        at if flags & SHF_ALLOC else 0, at,
                                        len(data) if size is None else size, link, 0, 8, entsize))
                at = at + len(data) + 15 & ~15
            f.seek(at)
            f.write(names)
            rows.append(struct.pack("<IIQQQQIIQQ", 0, SHT_STRTAB, 0, 0, at, len(names), 0, 0, 1, 0))
            at = at + len(names) + 15 & ~15
            said = count or len(rows)
            if said >= 0xff00:
                rows[0] = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, said, len(rows) - 1, 0, 0, 0)
            f.seek(at)
            f.write(b"".join(rows))
            if count:
                f.write(rows[-1] * (count - len(rows)))
            many = said >= 0xff00
            f.seek(0)
            f.write(struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 3, MACHINE, 1, CODE, 64, at, 0, 64,
                                56, 1, 64, 0 if many else said, 0xffff if many else len(rows) - 1))
            f.write(struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, DATA, DATA, 0x1000))
            f.seek(CODE)
            f.write(bytes.fromhex(WAITING))
            if length:
                f.truncate(length)


# Unwind information -------------------------------------------------------------------------------

def entry(body):
    body += bytes(-len(body) % 4)
    return struct.pack("<I", len(body)) + body


def cie(instructions=CALLED):
    return entry(struct.pack("<I", 0) + b"\x01zR\0\x01\x78" + bytes([RA]) + b"\x01\x00" + instructions)


def fde(offset, instructions=b"", start=CODE, size=CODE_SIZE):
    """One at `offset` of the section whose CIE is its first entry; absolute addresses are 64-bit."""
    return entry(struct.pack("<IQQ", offset + 4, start, size) + b"\0" + instructions)


def unwinding(instructions=b"", head=None):
    first = head or cie()
    return first + fde(len(first), instructions) + bytes(4)


# Debug information, DWARF 4 -----------------------------------------------------------------------

def abbrev(code, tag, children, *attributes):
    out = uleb(code) + uleb(tag) + bytes([children])
    for name, form in attributes:
        out += uleb(name) + uleb(form)
    return out + b"\0\0"


def unit(dies, abbrevs=0):
    body = struct.pack("<HIB", 4, abbrevs, 8) + dies
    return struct.pack("<I", len(body)) + body


PLACE = ((AT_LOW_PC, FORM_ADDR), (AT_HIGH_PC, FORM_DATA4))
HERE = struct.pack("<QI", CODE, CODE_SIZE)
ABBREVS = (abbrev(1, TAG_UNIT, 1, *PLACE) + abbrev(2, TAG_FUNCTION, 1, (AT_NAME, FORM_STRING), *PLACE) +
           abbrev(3, TAG_BLOCK, 1) + abbrev(4, TAG_INLINED, 1, (AT_ORIGIN, FORM_REF4), *PLACE) +
           abbrev(5, TAG_UNIT, 0, (AT_RANGES, FORM_SEC_OFFSET)) +
           abbrev(6, TAG_UNIT, 0, *PLACE, (AT_STMT_LIST, FORM_SEC_OFFSET)) +
           abbrev(7, TAG_UNIT, 1) + b"\0")


def debug(info, abbrevs=ABBREVS, **others):
    made = File()
    made.add(".debug_info", info)
    made.add(".debug_abbrev", abbrevs)
    for name, data in others.items():
        made.add(".debug_" + name, data)
    return made


def line_program(body, version=4, files=b"\0a.c\0\0\0\0\0"):
    header = b"\x01\x01\x01\xfb\x0e\x0d" + bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)) + files
    rest = struct.pack("<I", len(header)) + header + body
    return struct.pack("<IH", len(rest) + 2, version) + rest


# The bombs ----------------------------------------------------------------------------------------

def million_symbols(path):
    """2^20 functions, each of which covers the code."""
    strings = b"\0" + b"".join(b"f%d\0" % i for i in range(1 << 16))
    starts, at = [], 1
    for i in range(1 << 16):
        starts.append(symbol(at))
        at += len(b"f%d\0" % i)
    File().symbols(b"".join(starts) * 16, strings).write(path)


def long_names(path):
    """Names of a mebibyte that share their bytes."""
    strings = b"\0" + b"n" * (1 << 20) + b"\0"
    File().symbols(b"".join(symbol(1 + i) for i in range(1 << 16)), strings).write(path)


def demangler_bomb(path):
    """Names that grow when they are demangled."""
    name = b"_Z1f" + b"".join(b"N1a1bIS%d_S%d_EE" % (i, i) for i in range(200)) + b"\0"
    twice = b"_Z1fI" + b"St4pairI" * 400 + b"ii" + b"E" * 400 + b"Evv\0"
    File().symbols(symbol(1) + symbol(1 + len(name)), b"\0" + name + twice).write(path)


def million_sections(path):
    File().symbols(symbol(1), b"\0here\0").write(path, count=1000000)


def sparse(path):
    """A tebibyte of holes, of which tables of symbols and of debug information are said to be made."""
    made = File()
    made.add(".strtab", b"\0", SHT_STRTAB, size=1 << 38)
    made.add(".symtab", b"\0", SHT_SYMTAB, link=1, entsize=24, size=1 << 38)
    for name in (".debug_info", ".debug_abbrev", ".debug_line", ".debug_aranges", ".eh_frame",
                 ".debug_frame"):
        made.add(name, b"\0" * 64, size=1 << 38)
    made.write(path, length=1 << 40)


def line_inflates(path):
    """A few megabytes that inflate to two gibibytes; the units ask for them."""
    made = debug(unit(uleb(6) + HERE + bytes(4)))
    made.add(".debug_line", compressed(2 << 30), flags=SHF_COMPRESSED)
    made.write(path)


def info_inflates(path):
    made = File()
    made.add(".debug_abbrev", ABBREVS)
    for name in (".debug_info", ".debug_str", ".debug_aranges", ".debug_line", ".debug_frame"):
        made.add(name, compressed(1 << 30), flags=SHF_COMPRESSED)
    made.write(path)


def symbols_inflate(path):
    """A symbol table in a compressed section: zeros, and more zeros."""
    made = File()
    text = made.add(".strtab", compressed(1 << 29), SHT_STRTAB, SHF_COMPRESSED)
    made.add(".symtab", compressed(24 << 26), SHT_SYMTAB, SHF_COMPRESSED, link=text, entsize=24)
    made.write(path)


def long_line_program(path):
    """64 MiB of special operations: each a row."""
    program = b"\0\x09\x02" + struct.pack("<Q", CODE) + b"\x0d" * (64 << 20)
    debug(unit(uleb(6) + HERE + bytes(4)), line=line_program(program)).write(path)


def many_files(path):
    """Millions of file names in one line table."""
    files = b"\0" + b"a\0\0\0\0" * (8 << 20) + b"\0"
    program = b"\0\x09\x02" + struct.pack("<Q", CODE) + b"\x01\x02\x10\x01\0\x01\x01"
    debug(unit(uleb(6) + HERE + bytes(4)), line=line_program(program, files=files)).write(path)


def deep_dies(path):
    """Blocks in blocks, 10^6 of them, and one function at the bottom."""
    debug(unit(uleb(1) + HERE + uleb(2) + b"f\0" + HERE + uleb(3) * 1000000)).write(path)


def deep_inlines(path):
    """10^5 inlined functions, each in the one before, all at one address."""
    function = uleb(2) + b"f\0" + HERE
    origin = struct.pack("<I", 11 + 1 + len(HERE))
    debug(unit(uleb(1) + HERE + function + (uleb(4) + origin + HERE) * 100000)).write(path)


def origin_loop(path):
    """A function that is an instance of itself."""
    loop = abbrev(1, TAG_UNIT, 1, *PLACE) + abbrev(2, TAG_FUNCTION, 1, (AT_ORIGIN, FORM_REF4), *PLACE) + b"\0"
    at = 11 + 1 + len(HERE)
    debug(unit(uleb(1) + HERE + uleb(2) + struct.pack("<I", at) + HERE), loop).write(path)


def many_abbrevs(path):
    """Units that each want another table of millions of abbreviations, from its end."""
    table = b"".join(abbrev(i, TAG_BLOCK, 0) for i in range(1, 1 << 20)) + b"\0"
    code = uleb((1 << 20) - 1)
    debug(b"".join(unit(code, 8 * i) for i in range(64)), table).write(path)


def wide_abbrev(path):
    """One abbreviation of 2^22 attributes that take no room, and units full of it."""
    table = abbrev(1, TAG_UNIT, 1, *PLACE) + uleb(2) + uleb(TAG_BLOCK) + b"\0" + b"\x3f\x19" * (1 << 21) + b"\0\0\0"
    debug(unit(uleb(1) + HERE + uleb(2) * (1 << 20)), table).write(path)


def many_units(path):
    """2^20 units, none of which knows its code."""
    debug(unit(uleb(7)) * (1 << 20)).write(path)


def shared_ranges(path):
    """Units that all go through the same million ranges, which hold nothing."""
    ranges = struct.pack("<QQ", CODE + 0x800, CODE + 0x801) * 1000000 + bytes(16)
    debug(unit(uleb(5) + bytes(4)) * 20000, ranges=ranges).write(path)


def xz_inflates(path):
    """MiniDebugInfo that unpacks to two gibibytes."""
    engine = lzma.LZMACompressor(preset=0)
    data = b"".join(engine.compress(bytes(16 << 20)) for _ in range(16)) + engine.flush()
    made = File()
    made.add(".gnu_debugdata", data * 8)
    made.write(path)


def long_fde(path):
    """64 MiB of instructions for the one place where somebody stands."""
    file_with_cfi(unwinding(b"\0" * (64 << 20))).write(path)


def remembering_fde(path):
    """An FDE that remembers its state 10^7 times, and never goes back."""
    file_with_cfi(unwinding(b"\x0a" * 10000000)).write(path)


def long_cie(path):
    head = cie(CALLED + b"\x0a" * 10000000)
    file_with_cfi(unwinding(head=head)).write(path)


def many_fdes(path):
    """2^19 entries before the one that is wanted, and no table to search."""
    first = cie()
    size = len(fde(len(first)))
    rows = b"".join(fde(len(first) + size * i, b"", CODE + 0x800, 1) for i in range(1 << 19))
    file_with_cfi(first + rows + fde(len(first) + len(rows)) + bytes(4)).write(path)


def looks_sane(path):
    """No bomb: one symbol, and a CFA above the stack pointer."""
    file_with_cfi(unwinding(head=cie(SAVED))).write(path)


def expression(operations):
    return b"\x0f" + uleb(len(operations)) + operations


def looping_expression(path):
    """CFA: DW_OP_skip -3, for ever."""
    file_with_cfi(unwinding(expression(b"\x2f\xfd\xff"))).write(path)


def growing_expression(path):
    """CFA: DW_OP_dup and back, for ever."""
    file_with_cfi(unwinding(expression(BREG_SP + b"\x00\x12\x2f\xfc\xff"))).write(path)


def long_expression(path):
    """CFA: 16 MiB of DW_OP_nop."""
    file_with_cfi(unwinding(expression(BREG_SP + b"\x08" + b"\x96" * (16 << 20)))).write(path)


def file_with_cfi(data):
    made = File().symbols(symbol(1), b"\0here\0")
    made.add(".eh_frame", data, flags=SHF_ALLOC)
    made.add(".debug_frame", data)
    return made


ALL = {kind.__name__: kind for kind in (
    million_symbols, long_names, demangler_bomb, million_sections, sparse, line_inflates, info_inflates,
    symbols_inflate, long_line_program, many_files, deep_dies, deep_inlines, origin_loop, many_abbrevs,
    wide_abbrev, many_units, shared_ranges, xz_inflates, long_fde, remembering_fde, long_cie, many_fdes,
    looping_expression, growing_expression, long_expression)}

if __name__ == "__main__":
    import sys
    import time
    for name in sys.argv[2:] or ALL:
        began = time.monotonic()
        target = os.path.join(sys.argv[1], name)
        ALL[name](target)
        print(f"{name:20} {os.stat(target).st_blocks // 2048:6} MiB {time.monotonic() - began:6.2f} s")
