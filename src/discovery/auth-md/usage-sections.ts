// auth.md: call a model, check the balance, buy credits, manage keys.

import { cheapModelsText, keyFilePath } from "../discovery-settings.ts";
import { type RouteKey, type DocContext, joinParagraphs } from "../doc-context.ts";
import type { Section } from "./registration-sections.ts";

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
        ? "Choose a model id (`<provider>/<name>`). The list needs no key and has the prices. All of it is long, so search it:"
        : "",
      context.isMounted("GET /v1/models")
        ? `\`\`\`sh\ncurl -sS '${baseUrl}/v1/models?q=${exampleModel.split("/", 1)[0]}&limit=20&fields=id,pricing'\n\`\`\``
        : "",
      cheapModelsText(context.settings) ?? "",
      "Then use the API that you know: every model works with each of them.",
      ...apis.flatMap((api) => [
        `### ${api.name}`,
        context.curl(api.routeKey),
        `The text is in ${api.textPath}. SDK settings: ${api.sdk(baseUrl)}.`,
      ]),
      "### Notes",
      [
        "- Set `max_tokens` (`max_output_tokens` on Responses): the balance must cover the highest possible cost; you pay for what is used.",
        '- `"postern":{"max_cost_usd":0.01}` caps a call, `POST /v1/quote` gives a binding price, and `x-postern-receipt: 1` a signed receipt: see `/docs/quotes-and-receipts`.',
        '- `"stream": true` streams the response in the format of the API that you called.',
        '- Every JSON response has its cost in the `x-postern-cost-usd` header. `usage.cost` has it too, also in streams; for Chat Completions streams, set `"stream_options":{"include_usage":true}`.',
        isSimulated === true
          ? `- \`${exampleModel}\` is a simulated model for trying these steps. Its output is meaningless.`
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
    title: "Check the balance",
    text: joinParagraphs([
      context.curl("GET /v1/account"),
      context.responseExample("GET /v1/account", new Set(["key", "members"])),
      "`key`, left out here, has the limits of your key.",
      "One credit is $0.000001. Check the balance before a large job, not before each call: a call that it does not cover is a `402` and costs nothing.",
      context.isMounted("GET /v1/usage") ? "List what each call cost:" : "",
      context.curl("GET /v1/usage"),
      context.isMounted("GET /v1/ledger/proof")
        ? "`GET /v1/ledger/proof` proves your balance in the roots that the gateway publishes each day: see `/docs/ledger-proofs`. `GET /v1/service-levels` lists what is credited if a model fails: see `/docs/sla`."
        : "",
    ]),
  };
}

export function buyCreditsSection(context: DocContext): Section | undefined {
  if (!context.isMounted("POST /v1/billing/invoice")) return undefined;
  const { feePercent, paymentMethods = [], hasPaymentPage = true } = context.settings;
  if (!hasPaymentPage && paymentMethods.length === 0)
    return {
      title: "Buy credits",
      text: "This gateway has no payment method, so credits cannot be bought here. Calls with your own provider key cost no credits.",
    };
  const fee = (10 * feePercent) / 100;
  return {
    title: "Buy credits",
    text: joinParagraphs([
      "Ask your human first: it is their money. Then create an invoice. Its `payment_methods` are what is possible on this gateway.",
      hasPaymentPage ? "Give your human its `pay_url`: a person pays at the page." : "",
      paymentMethods.length > 0 ? "You can pay at the other URLs yourself." : "",
      context.curl("POST /v1/billing/invoice"),
      context.responseExample("POST /v1/billing/invoice"),
      `A purchase adds a platform fee of ${feePercent}%: $10.00 of credits costs $${(10 + fee).toFixed(2)} before tax. The credits are available as soon as the invoice is paid.`,
      context.isMounted("GET /v1/billing/invoice/{id}") ? "Check whether it is paid:" : "",
      context.curl("GET /v1/billing/invoice/{id}", { params: { id: "INVOICE_ID" } }),
      ...x402Paragraphs(context),
      ...mppParagraphs(context),
    ]),
  };
}

/** Empty unless the operator has enabled x402. */
function x402Paragraphs(context: DocContext): readonly string[] {
  const routeKey = "POST /v1/billing/invoice/{id}/x402";
  if (!context.isMounted(routeKey)) return [];
  return [
    "### Pay with x402",
    "If you have a wallet and your human lets you spend from it, you can pay yourself. An x402 (version 2) client, such as `wrapFetchWithPayment` from `@x402/fetch`, pays for a model call automatically: send the call as usual, with your key.",
    [
      "- A `402` response has the header `PAYMENT-REQUIRED`: base64-encoded JSON whose `accepts[0]` describes the payment. Sign it, and send the same request again with the header `PAYMENT-SIGNATURE`.",
      "- The payment buys credits, including the fee, and the call uses them. `PAYMENT-RESPONSE` is the receipt. Unused credits stay in your balance, even if the call fails.",
      "- If the balance covers a call, no payment is taken. Each payment is taken once, however often you send it.",
      "- `503` means that it is not known yet whether the payment was taken. Send the same `PAYMENT-SIGNATURE` again; do not sign another one.",
    ].join("\n"),
    ...(context.settings.acceptsWallets === true
      ? [
          "Without a key, a wallet pays for each call what it used: see [pay per call](/docs/pay-per-call.md).",
        ]
      : []),
    "To buy a different amount, create an invoice and pay it at its own URL in the same way:",
    context.curl(routeKey, { params: { id: "INVOICE_ID" } }),
  ];
}

/** Empty unless a method of Machine Payments is enabled. */
function mppParagraphs(context: DocContext): readonly string[] {
  const routeKey = "POST /v1/billing/invoice/{id}/mpp";
  if (!context.isMounted(routeKey)) return [];
  const methods = (context.settings.paymentMethods ?? [])
    .map(({ method }) => method)
    .filter((method) => method !== "x402");
  return [
    "### Pay with Machine Payments (MPP)",
    `An MPP client, such as \`mppx\`, pays a model call in the same way, with the method ${methods.map((method) => `\`${method}\``).join(" or ")}:`,
    [
      "- Send your API key in `x-api-key`, because the payment is in `authorization`.",
      "- A `402` response has `Payment` challenges in `WWW-Authenticate`. Fulfill one within five minutes, and send the same request again with `Authorization: Payment <credential>`. `Payment-Receipt` on a successful response is the receipt.",
      "- The payment buys credits as above. A credential is charged once, however often you send it. After a `503` send the same credential again; do not make another one.",
    ].join("\n"),
    "Pay an invoice of any amount in the same way:",
    context.curl(routeKey, { params: { id: "INVOICE_ID" } }),
  ];
}

/** Further restrictions, which a page describes. */
const RARE_KEY_FIELDS: ReadonlySet<string> = new Set([
  "allowed_providers",
  "allowed_endpoints",
  "tokens_per_minute",
  "max_concurrent_calls",
  "max_price_per_million_usd",
  "session_limit_usd",
  "session",
  "data_policy",
  "receipts",
  "cache_ttl",
  "prompt_logging",
  "alert_percents",
]);

export function manageKeysSection(context: DocContext): Section | undefined {
  if (!context.isMounted("POST /v1/keys")) return undefined;
  const file = keyFilePath(context.settings);
  const newFile = file.replace(/json$/, "new.json");
  const params = { id: "KEY_ID" };
  return {
    title: "Manage keys",
    text: joinParagraphs([
      "Create a key for each program that needs one, with a limit if possible. The key is shown once, so write it to a file as well (field `api_key`):",
      context.curl("POST /v1/keys", { before: ["umask 077"], extraArgs: [`-o ${newFile}`] }),
      context.bodyFields("POST /v1/keys", RARE_KEY_FIELDS),
      `\`/docs/keys\` describes ${[...RARE_KEY_FIELDS].map((name) => `\`${name}\``).join(", ")}.`,
      commandWithText(context, "GET /v1/keys", "List keys (without their secrets):"),
      commandWithText(context, "PATCH /v1/keys/{id}", "Rename a key:", params),
      "A key cannot give scopes that it does not have; a missing scope is a `403` with `required_scope`. A limited key must give each key that it creates a limit, which is deducted from its own. It has no access to webhooks, the audit log, purchases or other keys. Once a human owns the account, keys can only lower limits, bring expiries forward and remove scopes. To raise them, ask the owner. For sub-agents, see `/docs/derived-keys`; for apps, `/docs/sign-in-with-postern`.",
      commandWithText(
        context,
        "DELETE /v1/keys/{id}",
        "Revoke a key. Its next request gets `401`:",
        params,
      ),
      context.isMounted("DELETE /v1/keys/{id}")
        ? `**To rotate a key:** \`POST /v1/keys/self/rotate\` with a random \`idempotency-key\`, and write the new \`api_key\` to \`${file}\`. The old one works for another day, or for \`overlap_seconds\`. If a key may have leaked, revoke it as soon as you have another.`
        : "",
    ]),
  };
}

/** A command and its introduction; empty if the route is not mounted. */
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
