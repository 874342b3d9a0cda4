// A random character of Unicode, as of `unit: "binary"` in fast-check, which takes half a second of CPU time in each process.

import * as fc from "fast-check";

const CODE_POINT_MAX = 0x10_ff_ff;

export const anyCharacter = fc
  .integer({ min: 0, max: CODE_POINT_MAX })
  .map((codePoint) => String.fromCodePoint(codePoint))
  .filter((character) => character.isWellFormed());
