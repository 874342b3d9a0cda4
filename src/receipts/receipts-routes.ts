// GET /v1/usage/{id}/receipt: the signed receipt of a call.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { keyRoute, oneResponse, type Route } from "../http/route.ts";
import type { SigningKeys } from "../signing/signing-keys.ts";
import type { Db } from "../store/db.ts";
import { USAGE_EXAMPLE } from "../usage/usage-record.ts";
import { getUsage } from "../usage/usage.ts";
import { signReceipt } from "./receipt.ts";

export interface ReceiptRouteDeps {
  readonly db: Db;
  readonly baseUrl: string;
  readonly signingKeys: Pick<SigningKeys, "current">;
}

const ReceiptRecord = z.object({
  object: z.literal("receipt"),
  id: z.string().meta({ description: "The call's `x-request-id`." }),
  receipt: z.string().meta({
    description:
      "A compact JSON Web Signature (EdDSA). Its payload has the hashes of the request and the reply, the models, the provider, usage, prices and cost. `GET /.well-known/jwks.json` has the public key.",
  }),
});

export function receiptRoutes({ db, baseUrl, signingKeys }: ReceiptRouteDeps): readonly Route[] {
  return [
    keyRoute({
      method: "GET",
      path: "/v1/usage/{id}/receipt",
      id: "getReceipt",
      scope: "usage:read",
      tag: "Usage",
      summary: "Get the signed receipt of a call",
      description:
        "For calls that were sent with `x-postern-receipt: 1` or `postern.receipt: true`. A whole reply has the same receipt in its header `x-postern-receipt`.",
      dialect: "openai",
      params: z.object({
        id: z
          .string()
          .meta({ description: "The call's `x-request-id`.", example: USAGE_EXAMPLE.id }),
      }),
      responses: oneResponse("The receipt.", ReceiptRecord, {
        object: "receipt",
        id: USAGE_EXAMPLE.id,
        receipt: "eyJhbGciOi…",
      }),
      faults: ["not_found"],
      run: async ({ caller, params: { id } }) => {
        const record = await getUsage(db, caller.accountId, id);
        const receipt = signReceipt(record, baseUrl, signingKeys.current());
        if (receipt === undefined) throw noReceiptFault(id);
        return { status: 200, body: { object: "receipt", id, receipt } };
      },
    }),
  ];
}

function noReceiptFault(id: string): Fault {
  return new Fault("not_found", "call without a receipt", {
    message:
      "This call has no receipt: it did not ask for one, and the account and the key do not. Send `x-postern-receipt: 1` with a call, or set `receipts` with PATCH /v1/account.",
    param: "id",
    next: [{ method: "GET", url: `/v1/usage/${id}`, why: "Read the usage record of the call." }],
  });
}
