// What some models refuse on OpenAI's two APIs and Gemini's, by their names. Other models take it. From the providers' errors.

import { isObject, type JsonObject, objectOrEmpty, stringOrEmpty } from "../json-readers.ts";
import { invalidRequest, type InvalidRequest } from "../reply/normalized-request.ts";

interface EffortRule {
  readonly match: RegExp;
  readonly efforts: readonly string[];
}

/** The first that matches applies. */
const EFFORT_RULES: readonly EffortRule[] = [
  {
    match: /gpt-(6-(astra|rosalind)|6\.1-(sol|terra)|6\.2)/,
    efforts: ["low", "medium", "high", "xhigh", "max"],
  },
  { match: /gpt-(5\.[6-9]|[6-9])/, efforts: ["none", "low", "medium", "high", "xhigh", "max"] },
  { match: /gpt-5\.[2-5](?!-pro)/, efforts: ["none", "low", "medium", "high", "xhigh"] },
  { match: /gpt-5\.1(?!-codex)/, efforts: ["none", "low", "medium", "high"] },
  { match: /gpt-5($|-mini|-nano)/, efforts: ["minimal", "low", "medium", "high"] },
];
const WITHOUT_STOP = /(^|\/)(o[34]|gpt-5($|-mini|-nano)|gpt-(5\.[6-9]|[6-9]))(?!.*-chat)/;
const WITHOUT_MINIMAL = /gemini-(3\.[78]-flash(?!-lite)|4)/;
const THINKS_WITHOUT_CHOICE = /^deepseek-(flash|pro|v[4-9])/;
const FORBIDS_EXTRA = /^(mistral|ministral|magistral|codestral|devstral|pixtral)-/;
const EXTRA_FIELDS = [
  "seed",
  "store",
  "metadata",
  "user",
  "service_tier",
  "logit_bias",
  "logprobs",
  "verbosity",
  "safety_identifier",
  "prompt_cache_key",
];

/** `effort` is the effort of the request, in whichever field the API has it. */
export function refusedEffort(
  model: string,
  effort: unknown,
  field: string,
): InvalidRequest | undefined {
  const rule = EFFORT_RULES.find(({ match }) => match.test(model));
  if (rule === undefined || typeof effort !== "string" || rule.efforts.includes(effort))
    return undefined;
  const supported = rule.efforts.map((one) => `'${one}'`).join(", ");
  return invalidRequest(
    400,
    `Unsupported value: '${effort}' is not supported with the '${model}' model. Supported values are: ${supported}.`,
    field,
    "unsupported_value",
  );
}

/** Google's table of thinking levels. */
export function refusedThinkingLevel(model: string, level: string): InvalidRequest | undefined {
  return level === "minimal" && WITHOUT_MINIMAL.test(model)
    ? invalidRequest(
        400,
        "Thinking level MINIMAL is not supported for this model. Please retry with other thinking level.",
      )
    : undefined;
}

/** What models refuse on Chat Completions only. */
export function refusedChatField(body: JsonObject): InvalidRequest | undefined {
  const model = stringOrEmpty(body["model"]);
  if (WITHOUT_STOP.test(model))
    for (const field of ["stop", "logprobs"])
      if (body[field] !== undefined && body[field] !== null && body[field] !== false)
        return invalidRequest(
          400,
          `Unsupported parameter: '${field}' is not supported with this model.`,
          field,
          "unsupported_parameter",
        );
  const choice = body["tool_choice"];
  const isOff = objectOrEmpty(body["thinking"])["type"] === "disabled";
  if (THINKS_WITHOUT_CHOICE.test(model) && !isOff && (choice === "required" || isObject(choice)))
    return invalidRequest(400, "Thinking mode does not support this tool_choice");
  return FORBIDS_EXTRA.test(model) ? extraField(body) : undefined;
}

function extraField(body: JsonObject): InvalidRequest | undefined {
  const extra = EXTRA_FIELDS.find((name) => body[name] !== undefined);
  const messages = body["messages"];
  const hasDeveloper =
    Array.isArray(messages) &&
    messages.some((one: unknown) => objectOrEmpty(one)["role"] === "developer");
  const place = extra ?? (hasDeveloper ? "messages" : undefined);
  if (place === undefined) return undefined;
  return invalidRequest(422, `extra_forbidden: Extra inputs are not permitted: body.${place}`);
}
