// The routes of the service levels page.

import { z } from "zod";
import { nanoFromUsd } from "../../base/money/money.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { operatorFormRoute, operatorPageRoute } from "../../http/pages/page-routes.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { parseWithSchema } from "../../http/request/validate.ts";
import type { Operator, Route } from "../../http/route.ts";
import { previewLevel } from "../../service-levels/evaluate-levels.ts";
import { readGivenCredits } from "../../service-levels/service-credits.ts";
import {
  addServiceLevel,
  checkTerms,
  endServiceLevel,
  getServiceLevel,
  type LevelTerms,
  listServiceLevels,
  METRICS,
  PERIODS,
} from "../../service-levels/service-levels.ts";
import type { Tx } from "../../store/db.ts";
import { FormFields, FormToken, type OperatorContext, submitFormOnce } from "../page-context.ts";
import {
  LEVEL_RESULTS,
  SERVICE_LEVELS_PATH,
  serviceLevelsOperatorPage,
} from "./service-levels-operator-page.tsx";

const Terms = z.object({
  form: FormToken,
  model: z.string().trim().max(200),
  metric: z.enum(METRICS),
  target: z.string().trim().max(20),
  period: z.enum(PERIODS),
  credit_percent: z.string().trim().max(3),
  cap_usd: z.string().trim().max(20),
});
const Id = z.object({ form: FormToken, id: z.string().max(40) });
const LevelForm = z.discriminatedUnion("do", [
  Terms.extend({ do: z.literal("preview") }),
  Terms.extend({ do: z.literal("add") }),
  Id.extend({ do: z.literal("end") }),
  Id.extend({ do: z.literal("repeat") }),
]);
type LevelForm = z.infer<typeof LevelForm>;

type LevelResult = keyof typeof LEVEL_RESULTS;
const LevelResult = z.custom<LevelResult>(
  (name) => typeof name === "string" && Object.hasOwn(LEVEL_RESULTS, name),
);

export function serviceLevelPageRoutes(context: OperatorContext): readonly Route[] {
  const { db } = context;
  const showPage = async (
    operator: Operator,
    more: Omit<Parameters<typeof serviceLevelsOperatorPage>[1], "levels" | "given">,
  ): Promise<PageLayout> => {
    const [levels, given] = [await listServiceLevels(db), await readGivenCredits(db)];
    return serviceLevelsOperatorPage(operator, { levels, given, ...more });
  };
  return [
    operatorPageRoute({
      path: SERVICE_LEVELS_PATH,
      id: "showServiceLevels",
      summary: "Show service levels and the credits that they gave",
      query: z.object({ done: LevelResult.optional() }),
      run: ({ caller, query: { done } }) => showPage(caller, { done }),
    }),
    operatorFormRoute({
      path: SERVICE_LEVELS_PATH,
      id: "changeServiceLevels",
      summary: "Preview, add or turn off a service level",
      body: FormFields,
      requestExample: {
        do: "add",
        form: "f".repeat(43),
        model: "openai/gpt-5-mini",
        metric: "availability",
        target: "99.9",
        period: "day",
        credit_percent: "10",
        cap_usd: "10",
      },
      run: async ({ body, caller, clientIp, now }) => {
        const form = parseWithSchema(LevelForm, body, "body");
        if (form.do === "preview") {
          const terms = termsOf(form);
          const cost = await previewLevel(db, terms, now);
          return await showPage(caller, { preview: { terms, cost }, formValues: body });
        }
        const act = { operator: caller.email, network: networksOf(clientIp)[1], now };
        const submission = { token: form.form, payload: form, now };
        const done = await submitFormOnce(context, caller, submission, (tx) =>
          applyForm(tx, act, form),
        );
        return `${SERVICE_LEVELS_PATH}?done=${done}`;
      },
      rejected: ({ caller, body: formValues }, { message: errorMessage }) =>
        showPage(caller, { errorMessage, formValues }),
    }),
  ];
}

async function applyForm(
  tx: Tx,
  act: Parameters<typeof addServiceLevel>[1],
  form: Exclude<LevelForm, { readonly do: "preview" }>,
): Promise<LevelResult> {
  switch (form.do) {
    case "add":
      await addServiceLevel(tx, act, termsOf(form));
      return "added";
    case "repeat":
      await addServiceLevel(tx, act, await getServiceLevel(tx, form.id));
      return "added";
    case "end":
      await endServiceLevel(tx, act, form.id);
      return "ended";
  }
}

function termsOf(form: z.infer<typeof Terms>): LevelTerms {
  const { model, metric, target, period } = form;
  const terms = {
    model,
    metric,
    // A value that is not a number is rejected with the range that is allowed.
    target: metric === "availability" ? millionthsOf(target) : numberOf(target),
    period,
    creditPercent: numberOf(form.credit_percent),
    cap: nanoFromUsd(form.cap_usd) ?? 0n,
  };
  checkTerms(terms);
  return terms;
}

/** Of a percentage with at most four decimals. */
function millionthsOf(percent: string): number {
  const [, whole = "", fraction = ""] = /^(\d{1,3})(?:\.(\d{1,4}))?$/.exec(percent) ?? [];
  return whole === "" ? Number.NaN : Number(whole + fraction.padEnd(4, "0"));
}

function numberOf(typed: string): number {
  return /^\d*$/.test(typed) ? Number(typed) : Number.NaN;
}
