/** @jsxImportSource hono/jsx */
// The overview of a workspace: what is left, what is spent, and who and what can spend it.

import type { Child } from "hono/jsx";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import type { Freeze } from "../ledger/freezes.ts";
import type { UsageSum } from "../usage/usage.ts";
import { consolePage, pathOf } from "./frame.tsx";
import { TopUpNotice } from "./top-up-card.tsx";
import { minute, money, number } from "./words.ts";
import type { Overview, Place } from "./workspace.ts";

export function overviewPage(visitor: Visitor, place: Place, overview: Overview): PageFrame {
  const { balance, freeze, topUp, days, liveKeys, members } = overview;
  const spent = days.reduce((sum, one) => sum + one.cost, 0n);
  return consolePage({
    title: "Overview",
    place,
    visitor,
    page: "",
    main: (
      <>
        {freeze === undefined ? null : <Frozen freeze={freeze} />}
        <TopUpNotice place={place} topUp={topUp} isElsewhere />
        <section class="card" aria-labelledby="balance">
          <h2 id="balance">{money(balance.promo + balance.paid)} left</h2>
          <p>
            {money(balance.paid)} bought and {money(balance.promo)} given, which is spent first.{" "}
            {balance.held === 0n
              ? "No call is running."
              : `${money(balance.held)} is held by calls that run now.`}
          </p>
        </section>
        <p>
          <a href={pathOf(place.accountId, "/keys")}>
            {number(liveKeys)} live {liveKeys === 1 ? "key" : "keys"}
          </a>{" "}
          and{" "}
          <a href={pathOf(place.accountId, "/members")}>
            {number(members)} {members === 1 ? "member" : "members"}
          </a>{" "}
          can spend this balance.
        </p>
        <h2>{money(spent)} in the last thirty days</h2>
        {days.length === 0 ? <p>No model was called.</p> : <SumTable by="day" sums={days} />}
      </>
    ),
  });
}

function Frozen({ freeze }: { readonly freeze: Freeze }): Child {
  return (
    <p class="notice danger" role="status">
      {freeze.by === "operator"
        ? `The operator of this gateway froze this workspace at ${minute(freeze.since)}: ${freeze.reason}. It makes no calls until the operator lifts that.`
        : `This workspace makes no calls: a bank took a payment back, and ${money(freeze.owed)} of it were spent. Credits that are bought make good for that first.`}
    </p>
  );
}

const HEADS = { model: "Model", key: "Key", day: "Day, in UTC" } as const;

export function SumTable({
  by,
  sums,
  headOf = (group) => group,
}: {
  readonly by: keyof typeof HEADS;
  readonly sums: readonly UsageSum[];
  /** How a group is named, where not by itself. */
  readonly headOf?: (group: string) => Child;
}): Child {
  return (
    <div class="scroll" role="region" aria-label={`Usage by ${by}`} tabindex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{HEADS[by]}</th>
            <th scope="col" class="number">
              Calls
            </th>
            <th scope="col" class="number">
              Tokens in
            </th>
            <th scope="col" class="number">
              Tokens out
            </th>
            <th scope="col" class="number">
              Cost
            </th>
          </tr>
        </thead>
        <tbody>
          {sums.map((sum) => (
            <tr>
              <th scope="row" class={by === "day" ? "date" : "name"}>
                {headOf(sum.group)}
              </th>
              <td class="number">{number(sum.calls)}</td>
              <td class="number">{number(sum.inputTokens)}</td>
              <td class="number">{number(sum.outputTokens)}</td>
              <td class="number">{money(sum.cost)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
