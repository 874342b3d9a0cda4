/** @jsxImportSource hono/jsx */
// What a change of an account does, for the operator to confirm, and the changes that wait for a second operator.

import type { Child } from "hono/jsx";
import { formatUsdExact } from "../../base/text/format.ts";
import { Card, Notice } from "../../http/pages/components/content.tsx";
import { ErrorMessage, PostForm } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { Operator } from "../../http/route.ts";
import { newFormToken } from "../../idempotency/form-submission.ts";
import { AccountLink, accountPath, operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import { parseUsd } from "./account-actions.ts";
import type { AccountNames } from "./account-names.ts";
import type { ChangeFields, ChangeRequest } from "./change-requests.ts";

export const APPROVALS_PATH = `${OPERATOR_PATH}/approvals`;

const BUCKET_TEXTS: Readonly<Record<string, string>> = {
  paid: "paid credit",
  promo: "promotional credit",
};

/** `Grant $5.00 of promotional credit`. */
function changeText({ do: change = "", usd = "", bucket = "" }: ChangeFields): string {
  switch (change) {
    case "grant":
      return `Grant ${formatUsdExact(parseUsd(usd))} of promotional credit`;
    case "adjust": {
      const amount = parseUsd(usd);
      const of = BUCKET_TEXTS[bucket] === undefined ? "" : `, ${BUCKET_TEXTS[bucket]} only`;
      return `${amount < 0n ? "Take" : "Add"} ${formatUsdExact(amount < 0n ? -amount : amount)}${of}`;
    }
    case "freeze":
      return "Freeze the account: new calls with all its keys are rejected";
    case "unfreeze":
      return "Unfreeze the account";
    default:
      return "Write off the debt of the account";
  }
}

interface ConfirmChangeProps {
  readonly operator: Operator;
  readonly accountId: string;
  readonly fields: ChangeFields;
  readonly needsApproval: boolean;
}

export function ConfirmChange(props: ConfirmChangeProps): Child {
  const { operator, accountId, fields, needsApproval } = props;
  return (
    <form id="confirmation" class="confirm" method="post" action={accountPath(accountId)}>
      {Object.entries({ ...fields, csrf: operator.csrf, confirm: "yes" }).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <p class="notice danger" role="status">
        {changeText(fields)}? Reason: “{fields["reason"]}”.
        {needsApproval ? " Another operator must approve it." : ""}
      </p>
      <div class="actions">
        <button type="submit" class="danger">
          {needsApproval ? "Request approval" : "Confirm"}
        </button>
        <a class="button secondary" href={accountPath(accountId)}>
          Cancel
        </a>
      </div>
    </form>
  );
}

interface ApprovalsPageProps {
  readonly approval: "off" | "two_person";
  readonly requests: readonly ChangeRequest[];
  readonly names: AccountNames;
  readonly errorMessage?: string;
  readonly done?: "approved" | "rejected" | undefined;
}

export function approvalsPage(operator: Operator, props: ApprovalsPageProps): PageLayout {
  const { approval, requests, names, errorMessage, done } = props;
  return operatorPage({
    title: "Approvals",
    operator,
    path: APPROVALS_PATH,
    main: (
      <>
        <ErrorMessage message={errorMessage} />
        {done === undefined ? null : <Notice>The change is {done}.</Notice>}
        <Card id="requests" title="Changes that wait for a second operator">
          {requests.length === 0 ? (
            <p class="muted">
              {approval === "two_person" ? (
                "None."
              ) : (
                <>
                  Changes of accounts need no second operator. Set{" "}
                  <code>POSTERN_OPERATOR_APPROVAL=two_person</code> to require one.
                </>
              )}
            </p>
          ) : (
            <Table
              label="Changes that wait for a second operator"
              isStacked
              columns={[
                { name: "Change" },
                { name: "Account" },
                { name: "Reason", isWide: true },
                { name: "Requested", isDate: true },
                { name: "By" },
                { name: "Actions", isNumber: true },
              ]}
              rows={requests.map((request) => [
                changeText(request.fields),
                <AccountLink id={request.accountId} names={names} />,
                <bdi class="name">{request.fields["reason"]}</bdi>,
                <RelativeTime at={request.requestedAt} />,
                request.requestedBy,
                <DecisionForm operator={operator} request={request} />,
              ])}
            />
          )}
        </Card>
      </>
    ),
  });
}

/** An operator cannot approve an own request. */
function DecisionForm({
  operator,
  request: { id, requestedBy },
}: {
  readonly operator: Operator;
  readonly request: ChangeRequest;
}): Child {
  const isOwn = requestedBy === operator.email;
  return (
    <PostForm
      class="row-actions"
      user={operator}
      action={APPROVALS_PATH}
      fields={{ form: newFormToken(), request: id }}
    >
      {isOwn ? null : (
        <button type="submit" name="decision" value="approve" class="small">
          Approve
        </button>
      )}
      <button type="submit" name="decision" value="reject" class="small secondary">
        {isOwn ? "Withdraw" : "Reject"}
      </button>
    </PostForm>
  );
}
