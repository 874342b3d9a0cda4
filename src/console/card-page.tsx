/** @jsxImportSource hono/jsx */
// Where a card of development is saved: it is none, and does what its name says.

import { DEVELOPMENT_CARDS } from "../billing/development-card.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import { consolePage, Hidden, pathOf } from "./frame.tsx";
import type { Place } from "./workspace.ts";

export function cardPage(visitor: Visitor, place: Place): PageFrame {
  const action = `${pathOf(place.accountId, "/billing")}/card`;
  return consolePage({
    title: "Save a payment method",
    place,
    visitor,
    page: "/billing",
    main: (
      <>
        <p class="notice warn">This is a gateway in development. No money moves.</p>
        {Object.entries(DEVELOPMENT_CARDS).map(([card, name]) => (
          <form method="post" action={action}>
            <Hidden visitor={visitor} fields={{ card }} />
            <div class="choices">
              <button type="submit" class="quiet">
                {name}
              </button>
            </div>
          </form>
        ))}
        <p>
          <a href={pathOf(place.accountId, "/billing")}>Back, without saving</a>
        </p>
      </>
    ),
  });
}
