// What images are billed by if not by token: their number, their size and quality, or their pixels. All of it is in the request,
// so that a call is charged for what was held for it.

import { type JsonObject, stringIn } from "../json-fields.ts";
import { buildUsage, readStatedCost } from "../usage/read-numbers.ts";
import type { FeeMeter, Usage } from "../usage/usage-meters.ts";
import type { RelayedContext } from "./relayed-endpoint.ts";

/** Sent where a provider has another default. */
export const DEFAULT_SIDE = 1_024;
const PIXELS_PER_MEGAPIXEL = 1_000_000;
const SIZE = /^(\d{1,5})x(\d{1,5})$/;

export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** Undefined for `auto`, for an absent size, and for a text that is no size. */
export function readImageSize(size: unknown): ImageSize | undefined {
  const [, width, height] = SIZE.exec(stringIn(size) ?? "") ?? [];
  return width === undefined ? undefined : { width: Number(width), height: Number(height) };
}

/** The nearest of these ratios, such as "16:9", for a provider that takes no size. */
export function nearestRatio(
  size: ImageSize | undefined,
  ratios: readonly string[],
): string | undefined {
  if (size === undefined) return undefined;
  const wanted = Math.log(size.width / size.height);
  const distance = (ratio: string): number => {
    const [left = 1, right = 1] = ratio.split(":").map(Number);
    return Math.abs(Math.log(left / right) - wanted);
  };
  return ratios.toSorted((left, right) => distance(left) - distance(right))[0];
}

export function countImages({ n }: JsonObject): number {
  return typeof n === "number" ? n : 1;
}

/** An absent part is that of the provider's default. */
export function imageClassOf({ size, resolution, quality }: JsonObject): string {
  const nameOf = (value: unknown): string => {
    const name = (stringIn(value) ?? "").toLowerCase();
    return name === "auto" ? "" : name;
  };
  return `${nameOf(resolution ?? size)} ${nameOf(quality)}`;
}

export function imageUnits(
  json: JsonObject,
  images: number,
): Readonly<Partial<Record<FeeMeter, number>>> {
  const { width, height } = readImageSize(json["size"]) ?? {
    width: DEFAULT_SIDE,
    height: DEFAULT_SIDE,
  };
  return {
    image_generation: images,
    megapixel: (images * width * height) / PIXELS_PER_MEGAPIXEL,
  };
}

/** Undefined if the model is priced by token. */
export function usageOfUnits(
  images: number,
  { request, isPriced }: RelayedContext,
  usage?: unknown,
): Usage | undefined {
  const { image_generation, megapixel } = imageUnits(request, images);
  const isEach = isPriced("image_generation");
  if (!isEach && !isPriced("megapixel")) return undefined;
  return buildUsage(
    {
      tokens: {},
      fees: {
        ...(isEach && image_generation !== undefined ? { image_generation } : {}),
        ...(isPriced("megapixel") && megapixel !== undefined ? { megapixel } : {}),
      },
      imageClass: imageClassOf(request),
      statedCostUsd: readStatedCost(usage),
    },
    { clamped: false },
  );
}
