// Regular expressions and loops over texts that callers send: the CPU time grows in proportion to the text.

import { describe, expect, test } from "bun:test";
import { plainAmount } from "../../src/base/money/amount-text.ts";
import { isPublicHostname } from "../../src/base/network/public-address.ts";
import { unsupportedEndpointFault } from "../../src/inference/api/unsupported-endpoints.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import { destinationOf, isAllowedSource } from "../../src/inference/shared-account/source-url.ts";
import { cutBytes, isAllowedPage } from "../../src/inference/web-search/search-backends.ts";
import { builtInModels, catalogOf, findModel } from "../../src/models/catalog.ts";
import { isObjectPrefix } from "../../src/sinks/sinks.ts";
import { expectLinearCpuTime } from "../support/cpu-time.ts";

const SIZE = 20_000;
/** An expression that tries all ways to divide a text takes seconds for so many characters. */
const SHORT = 30;
const CATALOG = catalogOf(builtInModels());

function destination() {
  const [provider] = PROVIDERS;
  if (provider === undefined) throw new Error("no provider");
  const found = destinationOf({ provider, baseUrl: provider.baseUrl, byok: false }, "chat");
  if (found === undefined) throw new Error("no destination");
  return found;
}

const TEXTS: Readonly<Record<string, readonly [work: (size: number) => void, size: number]>> = {
  "the name of a model with many versions": [
    (size) => void findModel(CATALOG, `openai/gpt${"-v1:123".repeat(size)}!`),
    SHORT,
  ],
  "a long name of a model": [
    (size) => void findModel(CATALOG, `openai/gpt${"-v1:123-2026-01-01".repeat(size)}!`),
    SIZE,
  ],
  "the prefix of a sink": [(size) => void isObjectPrefix(`${"a".repeat(size)}#`), SHORT],
  "a host name with many periods": [(size) => void isPublicHostname(`a${".".repeat(size)}b`), SIZE],
  "the URL of an image with many periods": [
    (size) => void isAllowedSource(`https://a${".".repeat(size)}b/`, true, destination()),
    SIZE,
  ],
  "a domain of a web search with many periods": [
    (size) =>
      void isAllowedPage("https://example.com/", {
        allowedDomains: [`a${".".repeat(size)}b`],
        blockedDomains: [],
      }),
    SIZE,
  ],
  "a page of replacement characters": [
    (size) => void cutBytes(`${"\uFFFD".repeat(size)}a€`, 3 * size + 2),
    SIZE,
  ],
  "an amount with many spaces": [(size) => void plainAmount(`1${" ".repeat(size)}x`), SIZE],
  "a path with many models": [
    (size) => void unsupportedEndpointFault(`/v1/${"models/".repeat(size)}`),
    SIZE,
  ],
};

describe("takes linear time to read", () => {
  for (const [name, [work, size]] of Object.entries(TEXTS))
    test(name, () => {
      expectLinearCpuTime(work, size);
    });
});

test("the same names, prefixes and amounts are accepted as before", () => {
  const named = (id: string): string | undefined => findModel(CATALOG, id)?.model.id;
  for (const snapshot of ["-2026-01-01", "-latest", "@20260101", "-v1:0", "-v2:123-latest"])
    expect(named(`anthropic/claude-opus-4-6${snapshot}`)).toBe("anthropic/claude-opus-4-6");
  expect(named("anthropic/claude-opus-4-6-v1:")).toBeUndefined();
  for (const prefix of ["", "a", "a/", "a/b", "usage/dt=all/", "a/".repeat(20), "a/".repeat(19)])
    expect(isObjectPrefix(prefix)).toBe(true);
  for (const prefix of ["/a", "a//b", "a/../b", "a b", "a/".repeat(21)])
    expect(isObjectPrefix(prefix)).toBe(false);
  expect(["20 USD", "20  $", "$ 20", "20USD"].map(plainAmount)).toEqual(["20", "20", "20", "20"]);
  expect(cutBytes("ab€", 4)).toBe("ab");
  expect(cutBytes("ab😀", 5)).toBe("ab");
});
