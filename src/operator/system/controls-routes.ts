// The routes of the page with blocks and limits.

import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import { addBlock, BLOCK_KINDS, listBlocks, removeBlock } from "../../controls/blocks.ts";
import { changeLimit, LIMIT_NAMES } from "../../controls/limits.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { operatorFormRoute, operatorPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Operator, Route } from "../../http/route.ts";
import type { Tx } from "../../store/db.ts";
import { freezeAccount, parseReason, requireAccountId } from "../accounts/account-actions.ts";
import { FormFields, FormToken, type OperatorContext, submitFormOnce } from "../page-context.ts";
import {
  CONTROL_RESULTS,
  controlsPage,
  CONTROLS_PATH,
  FROZEN_AT_ONCE_MAX,
} from "./controls-page.tsx";

const ControlForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("block"),
    form: FormToken,
    kind: z.enum(BLOCK_KINDS),
    value: z.string().max(300),
    reason: z.string(),
  }),
  z.object({
    do: z.literal("unblock"),
    form: FormToken,
    kind: z.enum(BLOCK_KINDS),
    value: z.string(),
  }),
  z.object({
    do: z.literal("freeze"),
    form: FormToken,
    accounts: z.string().max(20_000),
    reason: z.string(),
  }),
  z.object({
    do: z.literal("limit"),
    form: FormToken,
    name: z.enum(LIMIT_NAMES),
    value: z.string().max(20),
  }),
]);
type ControlForm = z.infer<typeof ControlForm>;

type ControlResult = keyof typeof CONTROL_RESULTS;
const ControlResult = z.custom<ControlResult>(
  (name) => typeof name === "string" && Object.hasOwn(CONTROL_RESULTS, name),
);

export function controlsRoutes(context: OperatorContext): readonly Route[] {
  const { db, controls } = context;
  const showPage = async (
    operator: Operator,
    more: Omit<Parameters<typeof controlsPage>[1], "blocks" | "limits">,
  ): Promise<PageLayout> => {
    await controls.limits.refresh();
    return controlsPage(operator, {
      blocks: await listBlocks(db),
      limits: controls.limits,
      ...more,
    });
  };
  return [
    operatorPageRoute({
      path: CONTROLS_PATH,
      id: "showControls",
      summary: "Show blocks and limits",
      query: z.object({ done: ControlResult.optional() }),
      run: ({ caller, query: { done } }) => showPage(caller, { done }),
    }),
    operatorFormRoute({
      path: CONTROLS_PATH,
      id: "changeControls",
      summary: "Block a network or domain, freeze accounts, or change a limit",
      body: FormFields,
      requestExample: {
        do: "block",
        form: "f".repeat(43),
        kind: "network",
        value: "203.0.113.0/24",
        reason: "abuse",
      },
      run: async ({ body, caller, clientIp, now }) => {
        const form = parseWithSchema(ControlForm, body, "body");
        const act = { operator: caller.email, network: networksOf(clientIp)[1], now };
        const submission = { token: form.form, payload: form, now };
        const done = await submitFormOnce(context, caller, submission, (tx) =>
          applyControl(tx, context, form, act),
        );
        await Promise.all([controls.networks.refresh(), controls.limits.refresh()]);
        return `${CONTROLS_PATH}?done=${done}`;
      },
      rejected: ({ caller, body: formValues }, { message: errorMessage }) =>
        showPage(caller, { errorMessage, formValues }),
    }),
  ];
}

async function applyControl(
  tx: Tx,
  { approval }: OperatorContext,
  form: ControlForm,
  act: { readonly operator: string; readonly network: string | null; readonly now: number },
): Promise<ControlResult> {
  switch (form.do) {
    case "block": {
      const { kind, value } = form;
      await addBlock(tx, act, { kind, value, reason: parseReason(form.reason) });
      return "blocked";
    }
    case "unblock":
      await removeBlock(tx, act, form);
      return "unblocked";
    case "limit":
      await changeLimit(tx, act, form);
      return "changed";
    case "freeze": {
      if (approval === "two_person")
        throw invalid(
          "accounts",
          "A second operator must approve each freeze: request it on the page of the account.",
        );
      const reason = parseReason(form.reason);
      const by = { type: "operator", id: act.operator } as const;
      for (const accountId of accountIds(form.accounts))
        await freezeAccount(tx, { accountId, by, reason, network: act.network, now: act.now });
      return "frozen";
    }
  }
}

/** Sorted, so that two forms lock the accounts in the same order. */
function accountIds(typed: string): readonly string[] {
  const ids = [...new Set(typed.split(/[\s,;]+/).filter((id) => id !== ""))].toSorted();
  if (ids.length === 0 || ids.length > FROZEN_AT_ONCE_MAX)
    throw invalid("accounts", `Enter from 1 to ${FROZEN_AT_ONCE_MAX} account ids, one a line.`);
  return ids.map(requireAccountId);
}
