/** @jsxImportSource hono/jsx */
// A table of usage by model, key or day, for the console and the operator pages.

import type { Child } from "hono/jsx";
import { formatInteger, formatUsd } from "../base/format.ts";
import type { UsageSum } from "./usage-stats.ts";

const GROUP_HEADINGS = { model: "Model", key: "Key", day: "Day (UTC)" } as const;

export function UsageTable({
  groupBy,
  sums,
  rowHeading = (group) => group,
}: {
  readonly groupBy: keyof typeof GROUP_HEADINGS;
  readonly sums: readonly UsageSum[];
  /** Shown instead of the group's id. */
  readonly rowHeading?: (group: string) => Child;
}): Child {
  return (
    <div class="scroll" role="region" aria-label={`Usage by ${groupBy}`} tabindex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">{GROUP_HEADINGS[groupBy]}</th>
            <th scope="col" class="number">
              Calls
            </th>
            <th scope="col" class="number">
              Input tokens
            </th>
            <th scope="col" class="number">
              Output tokens
            </th>
            <th scope="col" class="number">
              Cost
            </th>
          </tr>
        </thead>
        <tbody>
          {sums.map((sum) => (
            <tr>
              <th scope="row" class={groupBy === "day" ? "date" : "name"}>
                {rowHeading(sum.group)}
              </th>
              <td class="number">{formatInteger(sum.calls)}</td>
              <td class="number">{formatInteger(sum.inputTokens)}</td>
              <td class="number">{formatInteger(sum.outputTokens)}</td>
              <td class="number">{formatUsd(sum.cost)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
