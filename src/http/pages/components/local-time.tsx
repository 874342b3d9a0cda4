/** @jsxImportSource hono/jsx */
// Times in the time zone of the person who reads the page.

import { type Child, createContext, useContext } from "hono/jsx";
import { formatClock, formatDateTime } from "../../../base/text/format.ts";

const TimeZone = createContext("UTC");

/** Shows the times within it in a time zone. */
export function InTimeZone({
  timeZone = "UTC",
  children,
}: {
  readonly timeZone: string | undefined;
  readonly children: Child;
}): Child {
  return <TimeZone.Provider value={timeZone}>{children}</TimeZone.Provider>;
}

export const useTimeZone = (): string => useContext(TimeZone);

export function DateTime({ at }: { readonly at: number }): Child {
  return <time datetime={new Date(at).toISOString()}>{formatDateTime(at, useTimeZone())}</time>;
}

/** The time of day as a link, and the day below it. */
export function ClockLink({ at, href }: { readonly at: number; readonly href: string }): Child {
  const timeZone = useTimeZone();
  const { time, day } = formatClock(at, timeZone);
  return (
    <>
      <a href={href} title={formatDateTime(at, timeZone)}>
        <time datetime={new Date(at).toISOString()}>{time}</time>
      </a>
      <span class="type">{day}</span>
    </>
  );
}

/** A time, which the app script shows as an age, such as "5 minutes ago". */
export function RelativeTime({ at }: { readonly at: number }): Child {
  return (
    <time datetime={new Date(at).toISOString()} data-relative="">
      {formatDateTime(at, useTimeZone())}
    </time>
  );
}
