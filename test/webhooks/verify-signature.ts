// Verifies Standard Webhooks signatures. Written from the specification, independently of src: the signed content is
// `msg_id.timestamp.payload`, the key is the base64 after `whsec_`, and the header may list several signatures.

import { createHmac, timingSafeEqual } from "node:crypto";

const TOLERANCE_SECONDS = 300;

export function isValidSignature(
  secret: string,
  headers: Headers,
  body: string,
  nowMs: number,
): boolean {
  const id = headers.get("webhook-id") ?? "";
  const timestamp = headers.get("webhook-timestamp") ?? "";
  if (id === "" || id.includes(".") || !/^\d+$/.test(timestamp)) return false;
  if (Math.abs(nowMs / 1_000 - Number(timestamp)) > TOLERANCE_SECONDS) return false;
  const encoded = /^whsec_([A-Za-z0-9+/]+=*)$/.exec(secret)?.[1];
  if (encoded === undefined) return false;
  const key = Buffer.from(encoded, "base64");
  if (key.length < 24 || key.length > 64) return false;
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest();
  return (headers.get("webhook-signature") ?? "").split(" ").some((signature) => {
    const [version, value = ""] = signature.split(",");
    const given = Buffer.from(value, "base64");
    return version === "v1" && given.length === expected.length && timingSafeEqual(given, expected);
  });
}
