/** @jsxImportSource hono/jsx */
// The overview of a workspace: what is left, what is spent, and who and what can spend it.

import type { Child } from "hono/jsx";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import type { UsageSum } from "../usage/usage.ts";
import { consolePage, pathOf } from "./frame.tsx";
import { money, number } from "./words.ts";
import type { Overview, Place } from "./workspace.ts";

export function overviewPage(visitor: Visitor, place: Place, overview: Overview): PageFrame {
  const { balance, days, liveKeys, members } = overview;
  const spent = days.reduce((sum, one) => sum + one.cost, 0n);
  return consolePage({
    title: "Overview",
    place,
    visitor,
    page: "",
    main: (
      <>
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
        {days.length === 0 ? <p>No model was called.</p> : <SumTable name="Day" sums={days} />}
      </>
    ),
  });
}

export function SumTable({
  name,
  sums,
}: {
  readonly name: string;
  readonly sums: readonly UsageSum[];
}): Child {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">{name}</th>
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
              <th scope="row">{sum.group}</th>
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
