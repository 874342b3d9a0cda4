// The 400 for a tool that the provider of a model does not run, or runs at a price that is not known.

import { API_TRAITS, FEE_METERS } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { arrayIn } from "../../base/json.ts";
import type { Model } from "../../models/catalog.ts";
import { isPriced, type PriceCard } from "../../models/price.ts";
import { commonForm } from "../request/common-form.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { toolBounds, toolsOf } from "../request/tool-bounds.ts";

const TOOL_NAME_MAX_LENGTH = 64;

export function unpricedToolFault(card: PriceCard, request: ParsedRequest, { id }: Model): Fault {
  const tools = toolsOf(commonForm(request));
  const index = tools.findIndex((tool) => {
    const { fees } = toolBounds({ tools: [tool] });
    return !isPriced(card, { fees: FEE_METERS.filter((fee) => (fees[fee] ?? 0) > 0) });
  });
  const type = tools[index]?.["type"];
  const name = typeof type === "string" ? type.slice(0, TOOL_NAME_MAX_LENGTH) : "tool";
  return new Fault("invalid_request", `no price for the tool ${name}`, {
    message: `\`${name}\` is a tool that the provider of ${id} does not run, or for which no price is known here. Remove this tool from \`tools\`, or use a model whose provider runs it: /docs/models lists them with prices.${toolHint(request)}`,
    // Further tools are in items of the input.
    param: index in arrayIn(commonForm(request)["tools"]) ? `tools[${index}]` : "tools",
  });
}

function toolHint(request: ParsedRequest): string {
  const hint = API_TRAITS[request.api].toolHint;
  const hints = toolsOf(commonForm(request)).map(({ type }) => hint?.(type) ?? "");
  return hints.find((hint) => hint !== "") ?? "";
}
