/** @jsxImportSource hono/jsx */
// Why a call failed and what to do next, from its outcome and the status of its last attempt.

import type { Child } from "hono/jsx";
import { Notice } from "../../http/pages/components/content.tsx";
import type { UsageRecord } from "../../usage/usage.ts";
import { workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext } from "../require-access.ts";

interface FailureNoticeProps {
  readonly call: UsageRecord;
  readonly workspace: WorkspaceContext;
}

const FALLBACKS = { href: "/docs/routing", label: "Set up fallbacks" } as const;

export function FailureNotice({ call, workspace }: FailureNoticeProps): Child {
  if (call.outcome === "completed") return null;
  if (call.outcome === "client_aborted")
    return (
      <Notice>
        The client closed the connection before the end of the reply. The tokens until then are
        charged.
      </Notice>
    );
  const charge = call.cost === 0n ? "It cost nothing." : "What was relayed before is charged.";
  const isKeyRejected = call.byok && KEY_STATUSES.has(call.attempts.at(-1)?.status ?? 0);
  return (
    <Notice
      tone="danger"
      link={
        isKeyRejected
          ? {
              href: workspacePath(workspace.accountId, "/provider-keys"),
              label: "Check provider key",
            }
          : FALLBACKS
      }
    >
      <b>{failureCause(call)}</b> {charge}
    </Notice>
  );
}

const KEY_STATUSES: ReadonlySet<number> = new Set([401, 403]);

const STATUS_CAUSES: Readonly<Record<number, string>> = {
  0: "could not be reached, or closed the connection before it replied",
  400: "rejected the request as invalid. The error of the response names the field",
  401: "rejected the provider key",
  402: "reports that its account has no credit",
  403: "rejected the provider key",
  404: "does not know the model",
  408: "did not answer in time",
  413: "rejected the request as too large",
  429: "limited the rate of requests. Retry later",
  503: "was overloaded. Retry later",
  529: "was overloaded. Retry later",
};

export function failureCause(
  call: Pick<UsageRecord, "outcome" | "provider" | "attempts" | "byok">,
): string {
  if (call.outcome === "shut_down")
    return "The gateway shut down while the call was in flight. Retry it.";
  if (call.outcome === "limit_exceeded")
    return "The reply was longer than this gateway relays. Ask for fewer tokens, choices or log probabilities.";
  if (call.outcome === "budget_cut")
    return "No more credits could be held for this reply, so it ended early. Buy credits or raise the limit, and retry it.";
  if (call.outcome === "guardrail_denied")
    return "A guardrail of this workspace denied the reply. The model has answered, so the call was charged.";
  const last = call.attempts.at(-1);
  const provider = last?.provider ?? call.provider;
  if (call.outcome === "upstream_timeout")
    return `${provider} did not answer in time. Retry, stream the reply, or ask for fewer tokens.`;
  if (call.outcome === "empty_reply")
    return `${provider} sent a reply without any content. Retry it.`;
  if (last === undefined) return `${provider} was not called.`;
  const { status } = last;
  if (status >= 200 && status < 400) return `${provider} ended the reply before it was complete.`;
  const isOwnAccount = !call.byok && KEY_STATUSES.has(status);
  const cause = isOwnAccount
    ? "rejected the account of this gateway. Tell its operator"
    : (STATUS_CAUSES[status] ?? `failed with status ${status}. Retry later`);
  return `${provider} ${cause}.`;
}
