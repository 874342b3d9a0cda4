// The URL with which an object is written to an S3-compatible bucket. The runtime signs it; the request is sent as any other.

import { S3Client } from "bun";
import type { S3Settings } from "./sink-rows.ts";

const LIFETIME_SECONDS = 300;

export function presignPut(settings: S3Settings, secretAccessKey: string, object: string): string {
  const { url, bucket, region, access_key_id: accessKeyId } = settings;
  const endpoint = url.replace(/\/$/, "");
  const client = new S3Client({ accessKeyId, secretAccessKey, bucket, region, endpoint });
  return client.presign(object, { method: "PUT", expiresIn: LIFETIME_SECONDS });
}
