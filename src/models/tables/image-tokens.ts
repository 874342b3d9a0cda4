// How many tokens an image has by its size, for the families of models whose providers publish the rule. A model without a row
// has the bound of its provider.

import { memoize } from "../../base/memoize.ts";

export interface PixelSize {
  readonly width: number;
  readonly height: number;
}

export interface ImageRule {
  /** The tokens of the largest image. */
  readonly max: number;
  /** The tokens of a large photo, for an estimate if the size is not known. */
  readonly usual: number;
  /** The tokens of a page of a document, if the provider publishes them; otherwise a page is an image of unknown size. */
  readonly page?: number;
  readonly tokensOf: (size: PixelSize) => number;
}

/** An image is covered by squares, and scaled down if it has more than `max`. Small images are scaled up to `min`. */
function patches(
  side: number,
  {
    max,
    min = 1,
    factor = 1,
  }: { readonly max: number; readonly min?: number; readonly factor?: number },
): ImageRule {
  const tokensOf = ({ width, height }: PixelSize): number => {
    const count = Math.ceil(width / side) * Math.ceil(height / side);
    return Math.ceil(Math.min(max, Math.max(min, count)) * factor);
  };
  const usual = Math.ceil(Math.min(max, USUAL_PATCHES) * factor);
  return { max: Math.ceil(max * factor), usual, tokensOf };
}

const USUAL_PATCHES = 2_500;

/** A short side of 768 pixels and a long one of 2,048 at most, in tiles of 512. */
function tiles(base: number, tile: number): ImageRule {
  const [shortPixels, longPixels, side] = [768, 2_048, 512];
  const short = Math.ceil(shortPixels / side);
  const tokensOf = ({ width, height }: PixelSize): number => {
    const ratio = Math.max(width, height) / Math.min(width, height);
    return base + tile * short * Math.ceil(Math.min(longPixels, shortPixels * ratio) / side);
  };
  const max = base + tile * short * Math.ceil(longPixels / side);
  return { max, usual: max, tokensOf };
}

const USUAL_CROPS = 6;

/** Two thirds of the short side, at most 768 pixels, is the side of a tile; a small image is one. */
function crops(tile: number): ImageRule {
  const [smallPixels, least, most] = [384, 256, 768];
  const tokensOf = ({ width, height }: PixelSize): number => {
    if (Math.max(width, height) <= smallPixels) return tile;
    const side = Math.min(most, Math.max(least, Math.floor(Math.min(width, height) / 1.5)));
    return tile * Math.ceil(width / side) * Math.ceil(height / side);
  };
  return { max: Infinity, usual: tile * USUAL_CROPS, page: tile, tokensOf };
}

function fixed(tokens: number): ImageRule {
  return { max: tokens, usual: tokens, tokensOf: () => tokens };
}

function larger(left: ImageRule, right: ImageRule): ImageRule {
  return {
    max: Math.max(left.max, right.max),
    usual: Math.min(left.usual, right.usual),
    tokensOf: (size) => Math.max(left.tokensOf(size), right.tokensOf(size)),
  };
}

/** The size to which OpenAI scales an image of low detail has so many patches. */
const LOW_DETAIL_PATCHES = 256;

/** OpenAI's patches of 32 pixels. */
function openAiPatches(max: number, factor: number): ImageRule {
  return patches(32, { max, min: LOW_DETAIL_PATCHES, factor });
}

/** OpenAI publishes no factor for some models; this is the largest of those it publishes. */
const FACTOR_MAX = 2.46;
const CLAUDE_PATCH = 28;

/**
 * The first that matches the id of a model decides. Sources, 2026-11: developers.openai.com/api/docs/guides/images-vision,
 * platform.claude.com/docs/en/build-with-claude/vision, ai.google.dev/gemini-api/docs/tokens and /media-resolution.
 */
const RULES: readonly (readonly [model: RegExp, rule: ImageRule | undefined])[] = [
  // Models that draw images read them by other rules.
  [/-image/, undefined],
  [/gpt-4o-mini/, tiles(2_833, 5_667)],
  [/gpt-(?:4\.1|5(?:\.4)?)-mini/, openAiPatches(1_536, 1.62)],
  [/gpt-(?:4\.1|5(?:\.4)?)-nano/, openAiPatches(1_536, FACTOR_MAX)],
  [/\bo4-mini/, openAiPatches(1_536, 1.72)],
  [/gpt-4(?:o|\.1|\.5|-turbo)(?![\w.])/, tiles(85, 170)],
  [/\bo[13](?![\w.])(?!-mini)/, tiles(75, 150)],
  [/gpt-5\.[45](?![\w.])/, openAiPatches(10_000, FACTOR_MAX)],
  [/gpt-5\.6(?![\w.])/, openAiPatches(30_000, 1.2)],
  [/gpt-6(?:\.\d+)?(?![\w.])/, openAiPatches(30_000, FACTOR_MAX)],
  // Which of both these use is not published for each.
  [/gpt-5(?:\.[0-3])?(?![\w.])/, larger(tiles(70, 140), openAiPatches(1_536, FACTOR_MAX))],
  [
    /claude-(?:opus|sonnet|haiku|fable|mythos)-(?:4[-.][7-9]|[5-9])(?!\d)/,
    patches(CLAUDE_PATCH, { max: 4_784 }),
  ],
  [/claude-(?:3|(?:opus|sonnet|haiku)-4)(?!\d{2})/, patches(CLAUDE_PATCH, { max: 1_568 })],
  [/gemini-2\./, crops(258)],
  [/gemini-3(?:\.\d)?-/, fixed(2_240)],
];

/** Undefined if the provider publishes none for the model. */
export const imageRuleOf = memoize(
  (modelId: string): ImageRule | undefined => RULES.find(([model]) => model.test(modelId))?.[1],
);
