// auth.md, the daily use: call a model, watch the balance, buy credits, look after keys.

import { type RouteKey, type DocContext, joinParagraphs } from "../doc-context.ts";
import type { Section } from "./registration-sections.ts";
import { keyFilePath } from "../discovery-settings.ts";

interface ModelApi {
  readonly name: string;
  readonly routeKey: RouteKey;
  readonly textPath: string;
  readonly sdk: (baseUrl: string) => string;
}

const openAiSdk = (baseUrl: string): string =>
  `\`OPENAI_BASE_URL=${baseUrl}/v1\` and \`OPENAI_API_KEY=$POSTERN_API_KEY\``;

const MODEL_APIS: readonly ModelApi[] = [
  {
    name: "Chat Completions",
    routeKey: "POST /v1/chat/completions",
    textPath: "`choices[0].message.content`",
    sdk: openAiSdk,
  },
  {
    name: "Responses",
    routeKey: "POST /v1/responses",
    textPath: "`output[]`, in the item of type `message`, at `content[0].text`",
    sdk: openAiSdk,
  },
  {
    name: "Messages",
    routeKey: "POST /v1/messages",
    textPath: "`content[]`, in the block of type `text`, at `text`",
    sdk: (baseUrl) =>
      `\`ANTHROPIC_BASE_URL=${baseUrl}\` and \`ANTHROPIC_API_KEY=$POSTERN_API_KEY\``,
  },
];

export function callModelSection(context: DocContext): Section | undefined {
  const apis = MODEL_APIS.filter((api) => context.isMounted(api.routeKey));
  if (apis.length === 0) return undefined;
  const { baseUrl, isSimulated, exampleModel } = context.settings;
  return {
    title: "Call a model",
    text: joinParagraphs([
      context.isMounted("GET /v1/models")
        ? "Take a model id, of the form `<provider>/<name>`, from the list. It needs no key, and shows each model's prices and whether it is `available` now:"
        : "",
      context.curl("GET /v1/models"),
      "Then speak the API that you know. Any model answers on each of them; an official SDK needs only its two variables.",
      ...apis.flatMap((api) => [
        `### ${api.name}`,
        context.curl(api.routeKey),
        `The text is in ${api.textPath}. For the SDK: ${api.sdk(baseUrl)}.`,
      ]),
      "### Good to know",
      [
        "- Name the most tokens that you want (`max_tokens`, on Responses `max_output_tokens`): the balance must cover the dearest outcome before a call begins, and you pay for what was used.",
        '- `"stream": true` streams in the form of the API that you called.',
        '- Every JSON answer says its cost in `x-postern-cost-usd`, and `usage.cost` says it on streams too; on a chat stream with `"stream_options":{"include_usage":true}`, which asks for `usage`.',
        isSimulated === true
          ? `- \`${exampleModel}\` is simulated: it is there to try the steps, and its words mean nothing.`
          : "",
      ]
        .filter((line) => line !== "")
        .join("\n"),
    ]),
  };
}

export function balanceSection(context: DocContext): Section | undefined {
  if (!context.isMounted("GET /v1/account")) return undefined;
  return {
    title: "Watch the balance",
    text: joinParagraphs([
      context.curl("GET /v1/account"),
      context.responseExample("GET /v1/account"),
      "One credit is a millionth of a US dollar. Look before a large job, not before each call: a call that the balance does not cover is refused with `402` and costs nothing.",
      context.isMounted("GET /v1/usage") ? "What each call cost:" : "",
      context.curl("GET /v1/usage"),
    ]),
  };
}

export function buyCreditsSection(context: DocContext): Section | undefined {
  if (!context.isMounted("POST /v1/billing/invoice")) return undefined;
  const { feePercent } = context.settings;
  const fee = (10 * feePercent) / 100;
  return {
    title: "Buy credits",
    text: joinParagraphs([
      "Ask your human first: this is their money. Then make an invoice and give them its `pay_url`.",
      context.curl("POST /v1/billing/invoice"),
      context.responseExample("POST /v1/billing/invoice"),
      `A purchase adds a platform fee of ${feePercent} %: 10.00 USD of credits cost ${(10 + fee).toFixed(2)} USD before tax. The credits are there as soon as the invoice is paid.`,
      context.curl("GET /v1/billing/invoice/{id}", { params: { id: "INVOICE_ID" } }),
      ...x402Paragraphs(context),
    ]),
  };
}

/** Only where the operator lets agents pay with wallets of their own. */
function x402Paragraphs(context: DocContext): readonly string[] {
  const routeKey = "POST /v1/billing/invoice/{id}/x402";
  if (!context.isMounted(routeKey)) return [];
  return [
    "### Pay by yourself, with x402",
    "If you hold a wallet, and your human lets you spend from it, you need no one to pay. A client that speaks x402, version 2, such as `wrapFetchWithPayment` of `@x402/fetch`, pays for a model call by itself: point it at the model's address as you would call it, key and all.",
    [
      "- The `402` of a call carries the header `PAYMENT-REQUIRED`: base64 of JSON, whose `accepts[0]` says what to sign. Sign it, and send the same request again with the header `PAYMENT-SIGNATURE`.",
      "- The payment buys credits, fee included, and the call runs on them. `PAYMENT-RESPONSE` is the receipt. What the call leaves stays in your balance, also where the call fails.",
      "- A call that the balance covers takes no payment. The same payment is taken once, however often you send it.",
      "- On `503` it is not known yet whether the payment was taken: send the same `PAYMENT-SIGNATURE` again, and sign no other one.",
    ].join("\n"),
    "To buy another amount, make an invoice and pay it at its own address in the same way:",
    context.curl(routeKey, { params: { id: "INVOICE_ID" } }),
  ];
}

export function manageKeysSection(context: DocContext): Section | undefined {
  if (!context.isMounted("POST /v1/keys")) return undefined;
  const file = keyFilePath(context.settings);
  const newFile = file.replace(/json$/, "new.json");
  const params = { id: "KEY_ID" };
  const [createFields, updateFields] = [
    context.bodyFields("POST /v1/keys"),
    context.bodyFields("PATCH /v1/keys/{id}"),
  ];
  return {
    title: "More keys",
    text: joinParagraphs([
      "Mint a key for each program that needs one, with a limit if you can name one. The raw key is shown once, so it goes into a file too, as `api_key`:",
      context.curl("POST /v1/keys", { before: ["umask 077"], extraArgs: [`-o ${newFile}`] }),
      createFields,
      commandWithText(context, "GET /v1/keys", "List keys, without their secrets:"),
      commandWithText(context, "PATCH /v1/keys/{id}", "Rename a key, by its `id`:", params),
      updateFields === createFields ? "" : updateFields,
      "Once a human owns the account, no key widens a limit or an expiry: it may lower them, and a limited key gives what it mints a part of its own limit. Beyond that, ask the owner, who does it in the console.",
      commandWithText(
        context,
        "DELETE /v1/keys/{id}",
        "Revoke a key. It gets `401` from the next request on:",
        params,
      ),
      context.isMounted("DELETE /v1/keys/{id}")
        ? `**To rotate:** mint a key, check it with \`GET /v1/account\`, move \`${newFile}\` over \`${file}\`, then revoke the old key by its \`id\`. If a key may have leaked, revoke it as soon as you hold the new one.`
        : "",
    ]),
  };
}

/** A command with the words before it, or neither. */
function commandWithText(
  context: DocContext,
  routeKey: RouteKey,
  text: string,
  params: Readonly<Record<string, string>> = {},
): string {
  return context.isMounted(routeKey)
    ? joinParagraphs([text, context.curl(routeKey, { params })])
    : "";
}
