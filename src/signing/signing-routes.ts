// GET /.well-known/jwks.json: the public keys that verify quotes and receipts.

import { z } from "zod";
import { publicRoute, type Route } from "../http/route.ts";
import type { SigningKeys } from "./signing-keys.ts";

const MAX_AGE_S = 300;

const JwksRecord = z.object({
  keys: z.array(
    z.object({
      kty: z.literal("OKP"),
      crv: z.literal("Ed25519"),
      alg: z.literal("EdDSA"),
      use: z.literal("sig"),
      kid: z.string(),
      x: z.string().meta({ description: "The public key, in base64url." }),
    }),
  ),
});

export function signingRoutes(keys: Pick<SigningKeys, "list">): readonly Route[] {
  return [
    publicRoute({
      method: "GET",
      path: "/.well-known/jwks.json",
      id: "getSigningKeys",
      tag: "Discovery",
      summary: "Get the public keys that verify quotes and receipts",
      description:
        "A JSON Web Key Set (RFC 7517) with the current key first. Earlier keys stay, so that old receipts can be verified.",
      dialect: "openai",
      responses: {
        200: {
          description: "The key set.",
          schema: JwksRecord,
          example: {
            keys: [
              {
                kty: "OKP",
                crv: "Ed25519",
                alg: "EdDSA",
                use: "sig",
                kid: "postern-1",
                x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
              },
            ],
          },
          headers: { "cache-control": "Five minutes." },
        },
      },
      faults: [],
      run: async () => ({
        status: 200,
        body: { keys: await keys.list() },
        headers: { "cache-control": `public, max-age=${MAX_AGE_S}` },
      }),
    }),
  ];
}
