// auth.md, the daily use: call a model, watch the balance, buy credits, look after keys.

import { type Address, type Desk, paragraphs } from "./desk.ts";
import type { Section } from "./manifest-entry.ts";
import { keyFileOf } from "./settings.ts";

interface ModelApi {
  readonly name: string;
  readonly address: Address;
  readonly textAt: string;
  readonly sdk: (baseUrl: string) => string;
}

const openAiSdk = (baseUrl: string): string =>
  `\`OPENAI_BASE_URL=${baseUrl}/v1\` and \`OPENAI_API_KEY=$POSTERN_API_KEY\``;

const MODEL_APIS: readonly ModelApi[] = [
  {
    name: "Chat Completions",
    address: "POST /v1/chat/completions",
    textAt: "`choices[0].message.content`",
    sdk: openAiSdk,
  },
  {
    name: "Responses",
    address: "POST /v1/responses",
    textAt: "`output[]`, in the item of type `message`, at `content[0].text`",
    sdk: openAiSdk,
  },
  {
    name: "Messages",
    address: "POST /v1/messages",
    textAt: "`content[]`, in the block of type `text`, at `text`",
    sdk: (baseUrl) =>
      `\`ANTHROPIC_BASE_URL=${baseUrl}\` and \`ANTHROPIC_API_KEY=$POSTERN_API_KEY\``,
  },
];

export function callModel(desk: Desk): Section | undefined {
  const apis = MODEL_APIS.filter((api) => desk.has(api.address));
  if (apis.length === 0) return undefined;
  const { baseUrl, simulated, exampleModel } = desk.settings;
  return {
    title: "Call a model",
    text: paragraphs([
      desk.has("GET /v1/models")
        ? "Take a model id, of the form `<provider>/<name>`, from the list. It needs no key, and shows each model's prices and whether it is `available` now:"
        : "",
      desk.curl("GET /v1/models"),
      "Then speak the API that you know. Any model answers on each of them; an official SDK needs only its two variables.",
      ...apis.flatMap((api) => [
        `### ${api.name}`,
        desk.curl(api.address),
        `The text is in ${api.textAt}. For the SDK: ${api.sdk(baseUrl)}.`,
      ]),
      "### Good to know",
      [
        "- Name the most tokens that you want (`max_tokens`, on Responses `max_output_tokens`): the balance must cover the dearest outcome before a call begins, and you pay for what was used.",
        '- `"stream": true` streams in the form of the API that you called.',
        '- Every JSON answer says its cost in `x-postern-cost-usd`, and `usage.cost` says it on streams too; on a chat stream with `"stream_options":{"include_usage":true}`, which asks for `usage`.',
        simulated === true
          ? `- \`${exampleModel}\` is simulated: it is there to try the steps, and its words mean nothing.`
          : "",
      ]
        .filter((line) => line !== "")
        .join("\n"),
    ]),
  };
}

export function watchBalance(desk: Desk): Section | undefined {
  if (!desk.has("GET /v1/account")) return undefined;
  return {
    title: "Watch the balance",
    text: paragraphs([
      desk.curl("GET /v1/account"),
      desk.answer("GET /v1/account"),
      "One credit is a millionth of a US dollar. Look before a large job, not before each call: a call that the balance does not cover is refused with `402` and costs nothing.",
      desk.has("GET /v1/usage") ? "What each call cost:" : "",
      desk.curl("GET /v1/usage"),
    ]),
  };
}

export function buyCredits(desk: Desk): Section | undefined {
  if (!desk.has("POST /v1/billing/invoice")) return undefined;
  const { feePercent } = desk.settings;
  const fee = (10 * feePercent) / 100;
  return {
    title: "Buy credits",
    text: paragraphs([
      "Ask your human first: this is their money. Then make an invoice and give them its `pay_url`.",
      desk.curl("POST /v1/billing/invoice"),
      desk.answer("POST /v1/billing/invoice"),
      `A purchase adds a platform fee of ${feePercent} %: 10.00 USD of credits cost ${(10 + fee).toFixed(2)} USD before tax. The credits are there as soon as the invoice is paid.`,
      desk.curl("GET /v1/billing/invoice/{id}", { params: { id: "INVOICE_ID" } }),
      ...payYourself(desk),
    ]),
  };
}

/** Only where the operator lets agents pay with wallets of their own. */
function payYourself(desk: Desk): readonly string[] {
  const address = "POST /v1/billing/invoice/{id}/x402";
  if (!desk.has(address)) return [];
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
    desk.curl(address, { params: { id: "INVOICE_ID" } }),
  ];
}

export function lookAfterKeys(desk: Desk): Section | undefined {
  if (!desk.has("POST /v1/keys")) return undefined;
  const file = keyFileOf(desk.settings);
  const newFile = file.replace(/json$/, "new.json");
  const params = { id: "KEY_ID" };
  const [minted, changed] = [desk.fields("POST /v1/keys"), desk.fields("PATCH /v1/keys/{id}")];
  return {
    title: "More keys",
    text: paragraphs([
      "Mint a key for each program that needs one, with a limit if you can name one. The raw key is shown once, so it goes into a file too, as `api_key`:",
      desk.curl("POST /v1/keys", { before: ["umask 077"], extra: [`-o ${newFile}`] }),
      minted,
      spoken(desk, "GET /v1/keys", "List keys, without their secrets:"),
      spoken(desk, "PATCH /v1/keys/{id}", "Rename a key, by its `id`:", params),
      changed === minted ? "" : changed,
      "Once a human owns the account, no key widens a limit or an expiry: it may lower them, and a limited key gives what it mints a part of its own limit. Beyond that, ask the owner, who does it in the console.",
      spoken(
        desk,
        "DELETE /v1/keys/{id}",
        "Revoke a key. It gets `401` from the next request on:",
        params,
      ),
      desk.has("DELETE /v1/keys/{id}")
        ? `**To rotate:** mint a key, check it with \`GET /v1/account\`, move \`${newFile}\` over \`${file}\`, then revoke the old key by its \`id\`. If a key may have leaked, revoke it as soon as you hold the new one.`
        : "",
    ]),
  };
}

/** A command with the words before it, or neither. */
function spoken(
  desk: Desk,
  address: Address,
  words: string,
  params: Readonly<Record<string, string>> = {},
): string {
  return desk.has(address) ? paragraphs([words, desk.curl(address, { params })]) : "";
}
