// Fees of tools that the reply alone does not decide: containers, which are billed by memory and by the minute, also if no
// code runs in them, and the preview of web search, which replies count like other searches.

import type { Usage } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { isPriced, type PriceCard } from "../../models/price.ts";
import type { Provider } from "../providers/providers.ts";
import { commonForm } from "../request/common-form.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import {
  CONTAINER_GIGABYTES,
  DEFAULT_TOOL_CALLS,
  NO_FEES,
  SEARCH_METERS,
  type ToolBounds,
  toolsOf,
} from "../request/tool-bounds.ts";

/** OpenAI's minimum per container, and Anthropic's. */
const CONTAINER_MINUTES_MIN = 5;
/** Longer than any call takes. */
const CONTAINER_MINUTES_MAX = 20;

/** How the fees in a reply are billed; undefined if they are billed as the reply counts them. */
export interface ToolTerms {
  /** The memory of each container that the request creates; 0 for one without a fee. */
  readonly containers: readonly number[];
  /** Containers are charged only if code ran in them, and there is one in a call. */
  readonly chargesRuns: boolean;
  readonly hasSearchPreview: boolean;
}

/** A provider of another API runs a web search as its own tool, so it bills its own meter. */
export function withBilledSearches(request: ParsedRequest, card: PriceCard): ParsedRequest {
  if (request.fees === NO_FEES) return request;
  const requested = SEARCH_METERS.find((meter) => request.fees[meter] !== undefined);
  const billed = BILLED_METERS.find((meter) => isPriced(card, { fees: [meter] }));
  if (requested === undefined || billed === undefined) return request;
  if (billed !== "grounding" && isPriced(card, { fees: [requested] })) return request;
  const { [requested]: searches = 0, ...fees } = request.fees;
  // Google takes no limit of searches.
  const count = billed === "grounding" ? Math.max(searches, DEFAULT_TOOL_CALLS) : searches;
  return { ...request, fees: { ...fees, [billed]: count } };
}

/** Google's lists also price a search, but its replies count grounding. */
const BILLED_METERS = ["grounding", "web_search"] as const;

export function toolTerms(
  request: ParsedRequest,
  card: PriceCard,
  { id: provider }: Pick<Provider, "id">,
): ToolTerms | undefined {
  const hasSearchPreview = request.fees.web_search_preview !== undefined;
  const hasContainers = request.containers.length > 0 && card.base.container_minute !== undefined;
  if (!hasSearchPreview && !hasContainers) return undefined;
  const chargesRuns = provider === "anthropic";
  const requested = hasContainers ? request.containers : [];
  const containers = chargesRuns
    ? requested.slice(0, 1).map(() => (includesCode(request) ? 0 : 1))
    : requested.map(({ gigabytes }) => gigabytes ?? MAX_GIGABYTES);
  return { containers, chargesRuns, hasSearchPreview };
}

/** From this version on, Anthropic's searches and fetches include the code that the model runs. */
const VERSION_WITH_CODE = "20260209";

function includesCode(request: ParsedRequest): boolean {
  return toolsOf(commonForm(request)).some(({ type }) => {
    const version = /^web_(?:search|fetch)_(\d{8})$/.exec(String(type))?.[1];
    return version !== undefined && version >= VERSION_WITH_CODE;
  });
}

const MAX_GIGABYTES = Math.max(...CONTAINER_GIGABYTES.values());

/** Throws for a container whose cost on the gateway's account is unknown. */
export function rejectUnknownContainers({ containers }: ParsedRequest): void {
  for (const { param, gigabytes } of containers) {
    if (gigabytes === undefined)
      throw new Fault("invalid_request", `unknown container at ${param}`, {
        message: `\`${param}\` must be one of ${[...CONTAINER_GIGABYTES.keys()].join(", ")}: the price of other containers is not known, so this gateway cannot bill them.`,
        param,
      });
  }
}

/** The most that these terms can add up to. */
export function heldFees(fees: ToolBounds["fees"], { containers }: ToolTerms): ToolBounds["fees"] {
  if (containers.length === 0) return fees;
  const { code_execution: _billedByTheMinute, ...others } = fees;
  return { ...others, container_minute: sum(containers) * CONTAINER_MINUTES_MAX };
}

/** The fees to charge for a call of this duration. */
export function billedFees(
  fees: Usage["fees"],
  { containers, chargesRuns, hasSearchPreview }: ToolTerms,
  durationMs: number,
): Usage["fees"] {
  const { code_execution: used = 0, web_search: searches, ...others } = fees;
  const isByMinute = containers.length > 0;
  const isUsed = used > 0 || !chargesRuns;
  const minutes = Math.min(
    CONTAINER_MINUTES_MAX,
    Math.max(CONTAINER_MINUTES_MIN, Math.ceil(durationMs / MINUTE_MS)),
  );
  // More containers than tools: an expired one was replaced.
  const more = chargesRuns ? 0 : Math.max(0, used - containers.length) * Math.max(0, ...containers);
  return {
    ...others,
    ...(isByMinute
      ? isUsed && { container_minute: (sum(containers) + more) * minutes }
      : used > 0 && { code_execution: used }),
    ...(searches !== undefined && {
      [hasSearchPreview ? "web_search_preview" : "web_search"]: searches,
    }),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
