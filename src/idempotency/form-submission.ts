// Idempotent form submissions: each rendered form has a unique token, so a double click or a reloaded page gets the
// first response.

import { randomBase62 } from "../base/crypto/secret.ts";
import { Fault } from "../base/fault.ts";
import type { Tx } from "../store/db.ts";
import type { Idempotency } from "./idempotency.ts";

const TOKEN_CHARACTERS = 22;

export const FORM_TOKEN = new RegExp(`^[0-9A-Za-z]{${TOKEN_CHARACTERS}}$`);

export function newFormToken(): string {
  return randomBase62(TOKEN_CHARACTERS);
}

export interface FormSubmission {
  /** Absent for a form of no workspace. */
  readonly accountId?: string;
  /** The person and the page. */
  readonly scope: string;
  readonly token: string;
  /** All form fields; the same token with another payload is rejected. */
  readonly payload: unknown;
  readonly now: number;
}

/** Runs `work` once per token; a repeated submission gets the first response. */
export async function submitOnce(
  tx: Tx,
  idempotency: Idempotency,
  { accountId, scope, token, payload, now }: FormSubmission,
  work: () => Promise<string>,
): Promise<string> {
  const call = { accountId, scope, key: token, body: JSON.stringify(payload), now };
  const stored = await idempotency.begin(tx, call).catch(rethrowForForm);
  if (stored !== undefined) return stored.body;
  const responseBody = await work();
  await idempotency.finish(tx, call, { status: 200, body: responseBody });
  return responseBody;
}

function rethrowForForm(error: unknown): never {
  if (!(error instanceof Fault) || error.code !== "conflict") throw error;
  const message =
    "This form was already submitted with other values. Nothing was changed this time. Reload the page and submit its form again.";
  throw new Fault("conflict", "a form token was reused with another payload", { message });
}
