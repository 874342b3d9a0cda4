// GET /v1/ledger/proof, and GET /v1/ledger/roots, which anyone may mirror.

import { z } from "zod";
import { invalid } from "../base/fault.ts";
import { keyRoute, oneResponse, publicRoute, type Route } from "../http/route.ts";
import { ENTRIES_MAX, findProof, type ProofDeps } from "./find-proof.ts";
import { SIZE_MAX } from "./merkle-tree.ts";
import { PROOF_DAYS } from "./publish-day.ts";

const ENTRIES_DEFAULT = 100;
const RECORDS_MAX = 1_000;

const Hash = z.string().meta({ description: "A SHA-256 hash in base64url." });
const PlainInclusion = z.object({
  leaf: z.string().meta({ description: "The text that is hashed." }),
  index: z.number().int().meta({ description: "Its place in the tree, from 0." }),
  path: z.array(Hash).meta({ description: "The siblings, from the leaf to the root." }),
});
const SumInclusion = PlainInclusion.extend({
  path: z
    .array(
      z.object({
        hash: Hash,
        nano: z.string().meta({ description: "The sum of the leaves below, in nano-dollars." }),
      }),
    )
    .meta({ description: "The siblings and their sums, from the leaf to the root." }),
});
const Head = z.string().meta({
  description:
    "The signed tree head: a compact JSON Web Signature (EdDSA) with `tree_size` and `root` of the log. `GET /.well-known/jwks.json` has the public key.",
});

const ProofRecord = z.object({
  object: z.literal("ledger_proof"),
  account: z.string(),
  day: z.string().meta({ description: "A UTC day." }),
  head: Head,
  record: PlainInclusion.meta({ description: "The day's record in the log." }),
  balance_nano: z.string().meta({
    description: "The balance at the end of the day, in billionths of a US dollar.",
  }),
  balance: z.array(SumInclusion).meta({
    description: "The two shares of the balance, with their paths in the Merkle-sum tree.",
  }),
  entries: PlainInclusion.extend({
    data: z.array(PlainInclusion),
    has_more: z.boolean(),
    next_cursor: z.string().nullable(),
  })
    .nullable()
    .meta({ description: "The account's balance entries of the day; null if it has none." }),
});

const RootsRecord = z.object({
  object: z.literal("ledger_roots"),
  head: Head.nullable().meta({ description: "The signed tree head; null before the first day." }),
  tree_size: z.number().int().meta({ description: "The number of days in the log." }),
  data: z.array(
    z.object({
      index: z.number().int().meta({ description: "Its place in the log, from 0." }),
      record: z.string().meta({ description: "The text that is hashed: JSON." }),
    }),
  ),
  consistency: z.array(Hash).meta({
    description: "Proves that this log begins with its first `since` records.",
  }),
  has_more: z.boolean(),
});

const HASH_EXAMPLE = "ejSA0qkJP1xSzGkEZ8jTQwLkxYk2n5v7bQm0cJt3i8E";
const RECORD_EXAMPLE = '{"type":"ledger_day","version":1,"day":"2026-11-27",…}';

export function ledgerProofRoutes(deps: ProofDeps): readonly Route[] {
  return [proofRoute(deps), rootsRoute(deps)];
}

function proofRoute(deps: ProofDeps): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/ledger/proof",
    id: "getLedgerProof",
    scope: "usage:read",
    tag: "Usage",
    summary: "Get the proof of the account's balance and entries of a day",
    description: `Proves that the balance and each entry are in the roots that the gateway published and signed, and which part of all liabilities the balance is. \`postern verify-proof\` verifies it without the gateway. Proofs are kept for ${PROOF_DAYS} days.`,
    dialect: "openai",
    query: z.strictObject({
      day: z.iso.date().optional().meta({
        description: "A UTC day; the last published one by default.",
        example: "2026-11-27",
      }),
      limit: z.coerce
        .number()
        .int()
        .min(1)
        .max(ENTRIES_MAX)
        .default(ENTRIES_DEFAULT)
        .meta({ description: "Entries per page." }),
      cursor: z.coerce
        .number()
        .int()
        .min(0)
        .max(SIZE_MAX)
        .default(0)
        .meta({ description: "`next_cursor` of the previous page." }),
    }),
    responses: oneResponse("The proof.", ProofRecord, {
      object: "ledger_proof",
      account: "acct_06fpcq1pz9wkmw1c2n8z9rq5xt",
      day: "2026-11-27",
      head: "eyJhbGciOi…",
      record: { leaf: RECORD_EXAMPLE, index: 0, path: [] },
      balance_nano: "4200000000",
      balance: [
        {
          leaf: '{"type":"balance","day":"2026-11-27",…}',
          index: 3,
          path: [{ hash: HASH_EXAMPLE, nano: "81230000" }],
        },
      ],
      entries: null,
    }),
    faults: ["not_found"],
    run: async ({ caller, query: { day, limit, cursor: offset } }) => ({
      status: 200,
      body: await findProof(deps, { account: caller.accountId, day, limit, offset }),
    }),
  });
}

function rootsRoute({ log }: ProofDeps): Route {
  return publicRoute({
    method: "GET",
    path: "/v1/ledger/roots",
    id: "listLedgerRoots",
    tag: "Usage",
    summary: "List the published roots of the ledger",
    description:
      "The append-only log of all daily records, in the form of RFC 9162, with its signed head. Send the number of records that you have as `since`: the reply has the next ones, and the proof that the earlier ones did not change.",
    dialect: "openai",
    query: z.strictObject({
      since: z.coerce.number().int().min(0).max(SIZE_MAX).default(0).meta({
        description: "The number of records that the caller has.",
      }),
      size: z.coerce.number().int().min(0).max(SIZE_MAX).optional().meta({
        description: "The size of the log at the end of the page; the newest by default.",
      }),
    }),
    responses: oneResponse(`At most ${RECORDS_MAX} records.`, RootsRecord, {
      object: "ledger_roots",
      head: "eyJhbGciOi…",
      tree_size: 1,
      data: [{ index: 0, record: RECORD_EXAMPLE }],
      consistency: [],
      has_more: false,
    }),
    faults: [],
    run: async ({ query: { since, size } }) => {
      const days = await log.read();
      const end = size ?? Math.min(days.length, since + RECORDS_MAX);
      if (end > days.length || end < since)
        throw invalid(
          size === undefined ? "since" : "size",
          `The log has ${days.length} records: \`since\` and \`size\` must be at most ${days.length}, and \`since\` at most \`size\`.`,
        );
      const shownEnd = Math.min(end, since + RECORDS_MAX);
      return {
        status: 200,
        body: {
          object: "ledger_roots",
          head: shownEnd === 0 ? null : log.headOf(shownEnd),
          tree_size: shownEnd,
          data: days
            .slice(since, shownEnd)
            .map(({ record }, at) => ({ index: since + at, record })),
          consistency: log.consistency(since, shownEnd),
          has_more: shownEnd < (size ?? days.length),
        },
      };
    },
  });
}
