// The stream of a workspace's audit log: where it is sent, and the header that authenticates it, which is stored encrypted.

import { authorize } from "../accounts/members.ts";
import {
  deleteStream,
  findStream,
  HEADER_PURPOSE,
  headerBinding,
  saveStream,
  type StreamKind,
} from "../activity/audit-stream-rows.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { deriveKey, encrypt } from "../base/crypto/encryption.ts";
import { invalid } from "../base/fault.ts";
import { checkHeaderValue, parseHeaderName } from "../base/network/endpoint-headers.ts";
import { type EndpointDeps, parseEndpoint } from "../base/network/public-endpoint.ts";
import type { Tx } from "../store/db.ts";

export interface StreamForm {
  readonly kind: StreamKind;
  readonly url: string;
  /** Empty for no header. */
  readonly headerName: string;
  /** Empty to keep the value of the same URL and header. */
  readonly headerValue: string;
}

/** The entry of this change is the first that the stream sends. */
export async function changeAuditStream(
  tx: Tx,
  act: Act,
  form: StreamForm,
  { master, allowLoopback }: EndpointDeps,
): Promise<void> {
  const { accountId, now } = act;
  await authorize(tx, act, "audit.stream");
  const endpoint = parseEndpoint(form.url.trim(), allowLoopback);
  if (typeof endpoint === "string") throw invalid("url", `\`url\` ${endpoint}.`);
  const url = endpoint.url.href;
  const before = await findStream(tx, accountId);
  const typed = form.headerName.trim();
  const headerName = typed === "" ? null : parseHeaderName(typed, "header_name");
  const value = form.headerValue.trim();
  if (value !== "") checkHeaderValue(value, "header_value");
  // The value of a header is only ever sent to the URL for which it was typed.
  const isSame = before?.url === url && before.headerName === headerName;
  const kept = isSame ? before.sealed : null;
  const sealed =
    value === ""
      ? kept
      : encrypt(deriveKey(master, HEADER_PURPOSE), headerBinding(accountId), value);
  if (headerName !== null && sealed === null)
    throw invalid("header_value", "`header_value` is required for this URL and header.");
  await saveStream(
    tx,
    accountId,
    { kind: form.kind, url, headerName, sealed: headerName === null ? null : sealed },
    now,
  );
  const detail = {
    kind: form.kind,
    host: endpoint.url.host,
    header: headerName,
    ...(before !== undefined && {
      kind_before: before.kind,
      host_before: new URL(before.url).host,
      header_before: before.headerName,
    }),
  };
  await recordAuditEntry(tx, { ...act, action: "audit_stream.changed", target: accountId, detail });
}

/** Entries that wait are not sent any more. */
export async function removeAuditStream(tx: Tx, act: Act): Promise<void> {
  const { accountId } = act;
  await authorize(tx, act, "audit.stream");
  const before = await findStream(tx, accountId);
  if (before === undefined) return;
  await deleteStream(tx, accountId);
  const detail = { kind: before.kind, host: new URL(before.url).host };
  await recordAuditEntry(tx, { ...act, action: "audit_stream.removed", target: accountId, detail });
}
