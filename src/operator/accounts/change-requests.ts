// Changes of accounts that wait for a second operator, where the settings require one. It owns the table operator_request.

import { recordAuditEntry } from "../../activity/audit.ts";
import { Fault } from "../../base/fault.ts";
import { newId } from "../../base/id.ts";
import type { OperatorAct } from "../../controls/blocks.ts";
import { integer, lockByName, type Reader, type Row, text, type Tx } from "../../store/db.ts";

const PENDING_MAX = 100;

/** The fields of the form, of which `do` names the change. */
export type ChangeFields = Readonly<Record<string, string>>;

export interface ChangeRequest {
  readonly id: string;
  readonly accountId: string;
  readonly fields: ChangeFields;
  readonly requestedBy: string;
  readonly requestedAt: number;
}

/** The audit entries name no account: its owner could read them, and the freeze of an abuser is not done yet. */
export async function requestChange(
  tx: Tx,
  { operator, network, now }: OperatorAct,
  { accountId, fields }: Pick<ChangeRequest, "accountId" | "fields">,
): Promise<void> {
  await lockByName(tx, "operator_request");
  const [row] = await tx.all(
    "select count(*) as count from operator_request where state = 'pending'",
  );
  if (row !== undefined && integer(row, "count") >= PENDING_MAX)
    throw new Fault("conflict", "too many pending requests", {
      message: `${PENDING_MAX} changes wait for approval. Approve or reject some first.`,
    });
  const id = newId("req", now);
  await tx.run(
    `insert into operator_request (id, account_id, fields, requested_by, requested_at, state)
     values (?, ?, ?, ?, ?, 'pending')`,
    [id, accountId, JSON.stringify(fields), operator, now],
  );
  await recordAuditEntry(tx, {
    accountId: null,
    actor: { type: "operator", id: operator },
    action: "change.requested",
    target: accountId,
    detail: describedFields(fields),
    network,
    now,
  });
}

/** Pending requests, the oldest first. */
export async function listChangeRequests(reader: Reader): Promise<readonly ChangeRequest[]> {
  const rows = await reader.all(
    `select * from operator_request where state = 'pending' order by id limit ${PENDING_MAX}`,
  );
  return rows.map(toChangeRequest);
}

/** The caller applies an approved change in the same transaction. */
export async function decideRequest(
  tx: Tx,
  { operator, network, now }: OperatorAct,
  { id, isApproved }: { readonly id: string; readonly isApproved: boolean },
): Promise<ChangeRequest> {
  const [row] = await tx.lockMany("operator_request", "id", [id]);
  if (row === undefined || text(row, "state") !== "pending")
    throw new Fault("conflict", "the request is decided", {
      message: "Another operator has already decided on this request.",
    });
  const request = toChangeRequest(row);
  if (isApproved && request.requestedBy === operator)
    throw new Fault("forbidden", "own request", {
      message: "Another operator must approve your request. You can withdraw it.",
    });
  await tx.run(
    "update operator_request set state = ?, decided_by = ?, decided_at = ? where id = ?",
    [isApproved ? "approved" : "rejected", operator, now, id],
  );
  if (!isApproved)
    await recordAuditEntry(tx, {
      accountId: null,
      actor: { type: "operator", id: operator },
      action: "change.rejected",
      target: request.accountId,
      detail: { ...describedFields(request.fields), requested_by: request.requestedBy },
      network,
      now,
    });
  return request;
}

function describedFields({ do: change = "", usd = "", reason = "" }: ChangeFields) {
  return { change, ...(usd === "" ? {} : { usd }), reason };
}

function toChangeRequest(row: Row): ChangeRequest {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    // Safe because only requestChange writes it.
    fields: JSON.parse(text(row, "fields")) as ChangeFields,
    requestedBy: text(row, "requested_by"),
    requestedAt: integer(row, "requested_at"),
  };
}
