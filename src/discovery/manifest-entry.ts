// auth.md, the way in: look for a key, register, keep the key.

import { REGISTER } from "./addresses.ts";
import { type Desk, fenced, goodStatus, paragraphs } from "./desk.ts";
import { keyFileOf } from "./settings.ts";

export interface Section {
  readonly title: string;
  readonly text: string;
}

export function lookFirst(desk: Desk): Section {
  const { settings } = desk;
  return {
    title: "Look for a key first",
    text: paragraphs([
      `Do not open a second account where one will do. Look in these places, in this order, for a key that begins with \`${settings.keyPrefix}-rt-\`:`,
      [
        "1. the environment variable `POSTERN_API_KEY`;",
        `2. the file \`${keyFileOf(settings)}\`, which *Register* below writes and *Keep the key* reads;`,
        "3. the project's own secret store or `.env`, if your human lets you read it.",
      ].join("\n"),
      "If you find one, check it:",
      desk.curl("GET /v1/account"),
      "`200`: the key works; go on with *Call a model*. `401`: the key is dead; drop it and go on with *Register*. Any other status says nothing about the key; see *Errors*.",
    ]),
  };
}

export function register(desk: Desk): Section | undefined {
  if (!desk.has(REGISTER)) return undefined;
  const file = keyFileOf(desk.settings);
  const once = onceFileOf(desk);
  return {
    title: "Register",
    text: paragraphs([
      "One call opens the account. It needs no key, no browser and no human.",
      "**Ask your human before you use their e-mail address.** If they gave you none, send `{}`: nothing on this page depends on it.",
      "This writes the answer straight into a file that only you can read, so that the key never shows up in a transcript:",
      desk.curl(REGISTER, {
        before: [
          "umask 077",
          "mkdir -p ~/.postern",
          `[ -s ${once} ] || od -An -N16 -tx1 /dev/urandom | tr -d ' \\n' > ${once}`,
        ],
        extra: [`-H "idempotency-key: $(cat ${once})"`, `-D - -o ${file}`],
      }),
      `The headers are printed. Status \`${goodStatus(desk, REGISTER)}\` means that you are in, and the file holds something like:`,
      desk.answer(REGISTER),
      "What you may send:",
      desk.fields(REGISTER),
      "With any other status the file holds an error: read it, and see *Errors*. If no answer came, run the same lines again: the same `idempotency-key` gets the first answer again and not a second account.",
    ]),
  };
}

export function keepKey(desk: Desk): Section {
  const { settings } = desk;
  const file = keyFileOf(settings);
  return {
    title: "Keep the key",
    text: paragraphs([
      "The raw key is shown once. Only a hash of it is stored, so nobody can show it again. Whoever holds it can spend the balance.",
      fenced(
        "sh",
        [
          `chmod 600 ${file}`,
          `rm -f ${onceFileOf(desk)}`,
          `export POSTERN_API_KEY="$(sed -n 's/.*"api_key": *"\\([^"]*\\)".*/\\1/p' ${file})"`,
        ].join("\n"),
      ),
      [
        "- Refer to it as `$POSTERN_API_KEY`. Never print it, and never put it into a chat, a log, a URL or a commit.",
        `- Send it to \`${settings.baseUrl}\` and to no other host.`,
        `- Tell your human that the account exists and where the key is kept (\`${file}\`), not the key itself.`,
        "- If each of your commands runs in a new shell, put the `export` line in front of each.",
        "- A lost key cannot be recovered; another live key of the account can mint a new one.",
      ].join("\n"),
    ]),
  };
}

/** Holds the idempotency key of a registration until its answer is safe. */
function onceFileOf(desk: Desk): string {
  return keyFileOf(desk.settings).replace(/json$/, "once");
}
