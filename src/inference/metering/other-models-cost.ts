// The upper bound of what other models cost that the provider calls for a request: advisors, and models that draw images for a
// tool. Images are billed by the tokens of their model; a reply without these is billed by the image, at a fee that the hold
// contains already.

import { API_TRAITS, DEFAULT_IMAGE_MODEL, WIRE_TRAITS } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import type { JsonObject } from "../../base/json.ts";
import { type Nano, nanoFromPico } from "../../base/money/money.ts";
import { cardResolver, type Catalog, type Model } from "../../models/catalog.ts";
import { priceUpperBound } from "../../models/price-bound.ts";
import type { PriceCard } from "../../models/price.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { ADVISOR_OUTPUT_TOKENS, toolsOf } from "../request/tool-bounds.ts";

/** The prompt, which the model writes, and the images of the conversation that are edited, each at high fidelity. */
const INPUT_TOKENS_MAX = 24_000;
/** A partial image of a stream. There are three at most. */
const PARTIAL_IMAGES_TOKENS = 300;
/** The largest size. A size in another form is refused by the provider. */
const LARGEST_SIZE = "3840x2160";

interface OtherModelsContext {
  readonly context: { readonly catalog: Catalog; readonly now: number };
  /** The prices of the model that is called. */
  readonly card: PriceCard;
  readonly promptTokens: number;
}

export function otherModelsCost(
  request: ParsedRequest,
  model: Model,
  context: OtherModelsContext,
): Nano {
  if (request.advisors.length === 0 && request.fees.image_generation === undefined) return 0n;
  return advisorCost(request, model, context) + imageToolCost(request, model, context);
}

// Each advisor call reads the whole input, at the advisor model's own price. Wires without advisors drop the tool.
function advisorCost(
  request: ParsedRequest,
  { id, provider, wires }: Model,
  { context: { catalog, now }, promptTokens: inputTokens }: OtherModelsContext,
): Nano {
  const hasAdvisors = wires.some((wire) => WIRE_TRAITS[wire].namedModelLists.includes("advisors"));
  if (!hasAdvisors) return 0n;
  let sum = 0n;
  for (const { model, calls, param } of request.advisors) {
    const card = cardResolver(catalog, provider, now)(model);
    if (card === undefined)
      throw new Fault("invalid_request", "no price for an advisor", {
        message: `The advisor model "${model}" has no known price at the provider of ${id}, so it cannot be billed. Use a model from GET /v1/models in \`${param}\`.`,
        param,
      });
    sum +=
      BigInt(calls) * priceUpperBound({ inputTokens, outputTokens: ADVISOR_OUTPUT_TOKENS }, card);
  }
  return sum;
}

function imageToolCost(
  { json, fees }: ParsedRequest,
  { id, provider }: Model,
  { context: { catalog, now }, card }: OtherModelsContext,
): Nano {
  const images = fees.image_generation ?? 0;
  if (images === 0) return 0n;
  const fee = nanoFromPico(card.base.image_generation ?? 0n);
  let highest = 0n;
  for (const [index, tool] of toolsOf(json).entries()) {
    if (tool["type"] !== "image_generation") continue;
    const name = tool["model"] ?? DEFAULT_IMAGE_MODEL;
    const cardOf = cardResolver(catalog, provider, now);
    const imageCard = typeof name === "string" ? cardOf(name) : undefined;
    if (imageCard === undefined) throw unknownModelFault(`tools[${index}].model`, id);
    const outputTokens = imageTokens(tool) + PARTIAL_IMAGES_TOKENS;
    const cost = priceUpperBound({ inputTokens: INPUT_TOKENS_MAX, outputTokens }, imageCard);
    if (cost > highest) highest = cost;
  }
  return highest > fee ? BigInt(images) * (highest - fee) : 0n;
}

function imageTokens({ size, quality }: JsonObject): number {
  const isKnown = typeof size === "string" && /^(?:auto|\d{2,4}x\d{2,4})$/.test(size);
  return (
    API_TRAITS.images.relayed?.outputTokensMax({
      quality,
      size: isKnown || size === undefined || size === null ? size : LARGEST_SIZE,
    }) ?? 0
  );
}

function unknownModelFault(param: string, id: string): Fault {
  return new Fault("invalid_request", "no price for an image model", {
    message: `The price of this image model is not known at the provider of ${id}, so its images cannot be billed. Use a model of GET /v1/models with \`kind\` image in \`${param}\`, or leave it out for ${DEFAULT_IMAGE_MODEL}.`,
    param,
  });
}
