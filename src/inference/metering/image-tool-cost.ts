// The upper bound of what images cost that a model generates with a tool of its provider. They are billed by the tokens of an
// image model. A reply without these tokens is billed by the image, at a fee that the hold contains already.

import { API_TRAITS, DEFAULT_IMAGE_MODEL } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import type { JsonObject } from "../../base/json.ts";
import { type Nano, nanoFromPico } from "../../base/money/money.ts";
import { cardResolver, type Catalog, type Model } from "../../models/catalog.ts";
import { priceUpperBound } from "../../models/price-bound.ts";
import type { PriceCard } from "../../models/price.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { toolsOf } from "../request/tool-bounds.ts";

/** The prompt, which the model writes, and the images of the conversation that are edited, each at high fidelity. */
const INPUT_TOKENS_MAX = 24_000;
/** A partial image of a stream. There are three at most. */
const PARTIAL_IMAGES_TOKENS = 300;
/** The largest size. A size in another form is refused by the provider. */
const LARGEST_SIZE = "3840x2160";

interface ImageToolContext {
  readonly catalog: Catalog;
  readonly now: number;
  /** The price card of the model that has the tool. */
  readonly card: PriceCard;
}

export function imageToolCost(
  { json, fees }: ParsedRequest,
  { id, provider }: Model,
  { catalog, now, card }: ImageToolContext,
): Nano {
  const images = fees.image_generation ?? 0;
  if (images === 0) return 0n;
  const fee = nanoFromPico(card.base.image_generation ?? 0n);
  let highest = 0n;
  for (const [index, tool] of toolsOf(json).entries()) {
    if (tool["type"] !== "image_generation") continue;
    const model = tool["model"] ?? DEFAULT_IMAGE_MODEL;
    const imageCard = cardResolver(catalog, provider, now)(String(model));
    if (imageCard === undefined) throw unknownModelFault(`tools[${index}].model`, id);
    const outputTokens = imageTokens(tool) + PARTIAL_IMAGES_TOKENS;
    const cost = priceUpperBound({ inputTokens: INPUT_TOKENS_MAX, outputTokens }, imageCard);
    if (cost > highest) highest = cost;
  }
  return highest > fee ? BigInt(images) * (highest - fee) : 0n;
}

function imageTokens({ size, quality }: JsonObject): number {
  const known = typeof size === "string" && /^(?:auto|\d{2,4}x\d{2,4})$/.test(size);
  return (
    API_TRAITS.images.relayed?.outputTokensMax({
      quality,
      size: known || size === undefined || size === null ? size : LARGEST_SIZE,
    }) ?? 0
  );
}

function unknownModelFault(param: string, id: string): Fault {
  return new Fault("invalid_request", "no price for an image model", {
    message: `The price of this image model is not known at the provider of ${id}, so its images cannot be billed. Use a model of GET /v1/models with \`kind\` image in \`${param}\`, or leave it out for ${DEFAULT_IMAGE_MODEL}.`,
    param,
  });
}
