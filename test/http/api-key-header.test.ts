// Headers of strangers that look like keys.

import { expect, test } from "bun:test";
import { hasMisplacedKey } from "../../src/http/request/api-key-header.ts";
import { expectLinearCpuTime } from "../support/cpu-time.ts";

const isMisplaced = (text: string): boolean => hasMisplacedKey(new Headers({ "api-key": text }));

test("a key in another header is found, also after a scheme", () => {
  const secret = "a".repeat(20);
  for (const text of [`pst-rt-${secret}`, `Key my-gateway-RT-${secret}`, `a-rt--rt-${secret}`])
    expect([text, isMisplaced(text)]).toEqual([text, true]);
  for (const text of [
    `-rt-${secret}`,
    `pst-rt-${secret.slice(1)}`,
    `p.st-rt-${secret}`,
    `pst-rt-${secret},`,
    `pst-rt-${secret} b`,
  ])
    expect([text, isMisplaced(text)]).toEqual([text, false]);
});

test("a header of many beginnings of keys takes linear time", () => {
  expectLinearCpuTime((size) => void isMisplaced(`a${"-rt-".repeat(size)},`), 10_000);
});
