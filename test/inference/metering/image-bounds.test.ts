// Images are held by their pixels: the size is read from the first bytes of an inline image, and the rule of the model's family
// says how many tokens that is. An image that hides its size counts as the largest.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { assert, constantFrom, integer, property, uint8Array } from "fast-check";
import { imageSize } from "../../../src/inference/metering/image-size.ts";
import { inputBound } from "../../../src/inference/metering/input-bound.ts";
import { estimateMediaTokens } from "../../../src/inference/metering/input-estimate.ts";
import { imageRuleOf } from "../../../src/models/tables/image-tokens.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { TEST_SEED } from "../../support/random.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { bodyOf, errorOf, type Json, postCall } from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";

const u16be = (value: number): readonly number[] => [value >> 8, value & 0xff];
const u16le = (value: number): readonly number[] => [value & 0xff, value >> 8];
const u24le = (value: number): readonly number[] => [...u16le(value & 0xffff), value >> 16];
const text = (value: string): readonly number[] => [...Buffer.from(value, "latin1")];
const PADDING = Array.from({ length: 64 }, () => 0);
const bytes = (...parts: readonly (number | readonly number[])[]): readonly number[] =>
  parts.flat();
const segment = (marker: number, data: readonly number[]): readonly number[] =>
  bytes(0xff, marker, u16be(data.length + 2), data);
const jpegFrame = (marker: number, width: number, height: number): readonly number[] =>
  segment(marker, bytes(8, u16be(height), u16be(width), 3, PADDING));
const webp = (kind: string, ...chunk: readonly (number | readonly number[])[]): readonly number[] =>
  bytes(text(`RIFF\0\0\0\0WEBP${kind}\0\0\0\0`), ...chunk, PADDING);

/** Each has a thumbnail or another size where the format allows one. */
const FORMATS: Readonly<Record<string, (width: number, height: number) => readonly number[]>> = {
  png: (width, height) =>
    bytes(
      [0x89, ...text("PNG\r\n\u001a\n\0\0\0\rIHDR\0\0"), ...u16be(width), 0, 0, ...u16be(height)],
      [8, 6, 0, 0, 0],
      PADDING,
    ),
  jpeg: (width, height) =>
    bytes(
      [0xff, 0xd8],
      segment(0xe1, bytes(text("Exif\0\0\u00ff\u00d8"), jpegFrame(0xc0, 1, 1), PADDING)),
      segment(0xdb, PADDING),
      segment(0xc4, PADDING),
      0xff,
      jpegFrame(0xc2, width, height),
      segment(0xda, PADDING),
    ),
  gif: (width, height) =>
    bytes(
      [...text("GIF89a"), ...u16le(1), ...u16le(1), 0x80, 0, 0, 0, 0, 0, 0, 0, 0],
      [0x21, 0xff, 2, 0x2c, 0x2c, 1, 0x2c, 0],
      [0x2c, 0, 0, 0, 0, ...u16le(width), ...u16le(height), 0],
      PADDING,
    ),
  "lossy webp": (width, height) =>
    webp("VP8 ", [0, 0, 0, 0x9d, 0x01, 0x2a], u16le(width), u16le(height)),
  "lossless webp": (width, height) => {
    const bits = (width - 1) | ((height - 1) << 14);
    return webp("VP8L", 0x2f, u16le(bits & 0xffff), u16le(bits >>> 16));
  },
  "extended webp": (width, height) =>
    webp("VP8X", [0, 0, 0, 0], u24le(width - 1), u24le(height - 1)),
};

const base64 = (data: readonly number[] | Uint8Array): string =>
  Buffer.from(data).toString("base64");
const image = (format: string, width: number, height: number): string =>
  `data:image/${format.split(" ").at(-1)};base64,${base64(FORMATS[format]?.(width, height) ?? [])}`;

const format = constantFrom(...Object.keys(FORMATS));
const side = integer({ min: 1, max: 16_000 });

describe("the size of an image", () => {
  test("is read from each format, with metadata before it", () => {
    assert(
      property(format, side, side, (name, width, height) => {
        expect(imageSize(image(name, width, height))).toEqual({ width, height });
      }),
      { seed: TEST_SEED },
    );
  });

  test("is that of real files", () => {
    const folder = path.join(import.meta.dir, "../../../docs/images");
    const sizes = readdirSync(folder)
      .filter((name) => name.endsWith(".webp"))
      .map((name) => imageSize(base64(readFileSync(path.join(folder, name)))));
    expect(sizes.length).toBeGreaterThan(5);
    for (const size of sizes) expect(size?.width).toBeGreaterThan(300);
  });

  test("is unknown for what is cut off, and nothing throws", () => {
    assert(
      property(
        format,
        integer({ min: 0, max: 25 }),
        uint8Array({ maxLength: 64 }),
        (name, length, end) => {
          const whole = FORMATS[name]?.(640, 480) ?? [];
          const head = whole.slice(0, name === "gif" ? Math.min(length, 13) : Math.min(length, 20));
          expect(imageSize(base64(head))).toBeUndefined();
          imageSize(base64([...head, ...end]));
        },
      ),
      { seed: TEST_SEED },
    );
  });

  const png = FORMATS["png"]?.(640, 480) ?? [];
  test.each<[what: string, value: string]>([
    ["a URL", "https://example.com/a.png"],
    ["a data URL without base64", "data:image/png,abc"],
    ["a data URL of another kind", `data:application/pdf;base64,${base64(png)}`],
    ["padding before the end", `${base64(png.slice(0, 31))}${base64(png.slice(31))}`],
    ["the alphabet of URLs", base64(png).replace(/[A-Z]/, "-")],
    ["a line break", `${base64(png).slice(0, 40)}\n${base64(png).slice(40)}`],
    ["no pixels", image("png", 0, 480)],
    ["a JPEG whose height comes later", image("jpeg", 640, 0)],
    ["a JPEG of several frames", base64([0xff, 0xd8, ...jpegFrame(0xde, 64, 64)])],
    ["a JPEG without a frame before its scan", base64([0xff, 0xd8, ...segment(0xda, PADDING)])],
    ["a WebP of an unknown chunk", base64(text("RIFF0000WEBPALPH".padEnd(64, "0")))],
    [
      "a GIF whose first block is unknown",
      base64([...text("GIF89a"), 1, 0, 1, 0, 0, 0, 0, 9, ...PADDING]),
    ],
    ["another format", base64([...text("BM"), ...PADDING])],
  ])("is unknown for %s", (_what, value) => {
    expect(imageSize(value)).toBeUndefined();
  });
});

describe("the tokens of an image", () => {
  /** The examples of the providers' pages. */
  test.each<[model: string, width: number, height: number, tokens: number]>([
    ["anthropic/claude-sonnet-4-6", 200, 200, 64],
    ["anthropic/claude-sonnet-4-6", 1_000, 1_000, 1_296],
    ["anthropic/claude-opus-4-5", 3_840, 2_160, 1_568],
    ["bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0", 8_000, 8_000, 1_568],
    ["anthropic/claude-opus-4-7", 1_920, 1_080, 2_691],
    ["openrouter/anthropic/claude-opus-5.5", 3_840, 2_160, 4_784],
    ["vertex/claude-haiku-5-5", 3_840, 2_160, 4_784],
    ["openai/gpt-4o", 1_024, 1_024, 765],
    ["openai/gpt-4o", 2_048, 4_096, 1_105],
    ["openai/gpt-4o-mini", 1_024, 1_024, 25_501],
    ["openai/o3", 1_024, 1_024, 675],
    ["openai/gpt-5-mini", 1_024, 1_024, Math.ceil(1_024 * 1.62)],
    ["openai/gpt-5.4-nano", 1_800, 2_400, Math.ceil(1_536 * 2.46)],
    ["openai/gpt-5.6-sol", 1_024, 1_024, Math.ceil(1_024 * 1.2)],
    ["openai/gpt-5.6-sol", 8_000, 8_000, 36_000],
    ["google/gemini-2.5-pro", 384, 384, 258],
    ["google/gemini-2.5-pro", 960, 540, 6 * 258],
    ["google/gemini-3.5-flash", 4_000, 4_000, 2_240],
  ])("of %s, %i by %i, are %i", (model, width, height, tokens) => {
    expect(imageRuleOf(model)?.tokensOf({ width, height })).toBe(tokens);
  });

  test("have no rule for models whose providers publish none", () => {
    for (const model of [
      "google/gemini-4-carbon",
      "openai/gpt-image-2",
      "xai/grok-4.7",
      "sim/echo",
    ])
      expect(imageRuleOf(model)).toBeUndefined();
  });

  test("never grow beyond those of an unknown size", () => {
    const models = [
      "openai/gpt-5.5",
      "openai/gpt-5",
      "anthropic/claude-opus-5-5",
      "openai/gpt-4o-mini",
    ];
    assert(
      property(constantFrom(...models), side, side, (model, width, height) => {
        const rule = imageRuleOf(model);
        const tokens = rule?.tokensOf({ width, height }) ?? Infinity;
        expect(tokens).toBeGreaterThan(0);
        expect(tokens).toBeLessThanOrEqual(rule?.max ?? 0);
      }),
      { seed: TEST_SEED },
    );
  });
});

describe("the bound of an image", () => {
  const CLAUDE = "anthropic/claude-opus-5-5";
  const inputOf = (part: Json): Json => ({ messages: [{ role: "user", content: [part] }] });
  const boundOf = (part: Json, model = CLAUDE): number => {
    const json = inputOf(part);
    const limits = { model, imageTokensMax: 50_000, contextTokens: 1_000_000 };
    return inputBound(JSON.stringify(json), json, limits);
  };
  const small = image("png", 280, 280);
  const smallData = small.slice(small.indexOf(",") + 1);
  const TOKENS = 100;

  const known: readonly Json[] = [
    { type: "image_url", image_url: { url: small } },
    { type: "input_image", image_url: small },
    { type: "image", source: { type: "base64", media_type: "image/png", data: smallData } },
  ];
  test.each(known.map((part) => [part]))("is by the pixels of %j", (part) => {
    const rest = boundOf({ ...part, type: "text" });
    expect(boundOf(part) - rest).toBeGreaterThanOrEqual(TOKENS);
    expect(boundOf(part) - rest).toBeLessThan(TOKENS + 50);
    expect(estimateMediaTokens(inputOf(part), CLAUDE)).toBe(TOKENS);
  });

  const unsized: readonly Json[] = [
    { type: "image_url", image_url: { url: "https://example.com/a.png" } },
    { type: "input_image", image_url: small, file_id: "file-1" },
    { type: "input_image", file_id: "file-1" },
    { type: "image", source: { type: "base64", data: smallData, url: "https://example.com/b" } },
    { type: "image_url", image_url: { url: `${small}!` } },
  ];
  test.each(unsized.map((part) => [part]))("is the largest of the model for %j", (part) => {
    expect(boundOf(part)).toBeGreaterThanOrEqual(4_784);
    expect(boundOf(part)).toBeLessThan(6_000);
    expect(boundOf(part, "sim/echo")).toBeGreaterThanOrEqual(50_000);
  });

  test("never exceeds that of the provider", () => {
    const part = { type: "image_url", image_url: { url: image("png", 16_000, 16_000) } };
    for (const model of ["openai/gpt-6-sol", "google/gemini-2.5-pro"])
      expect(boundOf(part, model)).toBeLessThan(51_000);
  });
});

for (const store of STORE_KINDS)
  describe(`images in quotes and holds on ${store}`, () => {
    let gateway: Gateway;
    const model = "sim/claude-opus-5-5";
    beforeAll(async () => {
      const pricing = { tokens: { input: "50", output: "50" } };
      const wires = ["chat", "responses", "messages", "gemini"];
      const models = [
        { id: model, wires, context_length: 200_000, max_output_tokens: 100, pricing },
      ];
      gateway = await startGateway({ store, env: withModels(models) });
    });
    afterAll(() => gateway.stop());

    const parts = {
      chat: (url: string): Json => ({ type: "image_url", image_url: { url } }),
      responses: (url: string): Json => ({ type: "input_image", image_url: url }),
      messages: (url: string): Json => {
        const data = url.slice(url.indexOf(",") + 1);
        return { type: "image", source: { type: "base64", media_type: "image/png", data } };
      },
    };
    const bodyWith = (api: keyof typeof parts, url: string): Json => {
      const turn = [{ role: "user", content: [parts[api](url)] }];
      const input = api === "responses" ? { input: turn } : { messages: turn };
      return { ...bodyOf(api, "go", { model }), ...input };
    };
    const quoteOf = async (account: TestAccount, api: keyof typeof parts, url: string) => {
      const response = await fetch(`${gateway.url}/v1/quote?api=${api}`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify(bodyWith(api, url)),
      });
      return (await response.json()) as { input_tokens_max: number; hold_credits: number };
    };

    for (const api of ["chat", "responses", "messages"] as const)
      test(`are the same by their pixels (${api})`, async () => {
        const account = await registerAccount(gateway);
        const [small, large] = [image("png", 28, 28), image("png", 2_400, 1_400)];
        const [cheap, dear] = [
          await quoteOf(account, api, small),
          await quoteOf(account, api, large),
        ];
        expect(dear.input_tokens_max - cheap.input_tokens_max).toBe(86 * 50 - 1);
        // 5 cents pay for the small image and not for the large one.
        expect((await postCall(gateway, account, api, bodyWith(api, small))).status).toBe(200);
        const refused = await postCall(gateway, account, api, bodyWith(api, large));
        expect(refused.status).toBe(402);
        expect(errorOf(await refused.json())["required_credits"]).toBe(dear.hold_credits);
      });
  });
