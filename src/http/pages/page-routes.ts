// Routes of pages and of their forms. A page returns its layout. A form returns where to go next, or a page: with status 400
// if the person can correct what was sent.

import type { z } from "zod";
import { Fault, type FaultCode } from "../../base/fault.ts";
import {
  type Operator,
  type ResponseDoc,
  type Route,
  type RouteInput,
  type RouteKind,
  type SessionUser,
  toRoute,
} from "../route.ts";
import type { PageLayout } from "./layout.tsx";
import { type FormError, formErrorOf, pageResponse, redirect } from "./page-response.ts";

interface PageDoc<P> {
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly tag: string;
  readonly params?: z.ZodType<P>;
  readonly faults?: readonly FaultCode[];
  /** The responses of a route that returns a file. */
  readonly responses?: Readonly<Record<number, ResponseDoc>>;
  readonly isLongRunning?: true;
}

type Awaitable<T> = T | Promise<T>;

/** A path or URL to redirect to, a page, or another response. */
export type FormResult = string | PageLayout | Response;

export interface PageSpec<P, Q, C> extends PageDoc<P> {
  readonly query?: z.ZodType<Q>;
  readonly run: (input: RouteInput<P, Q, undefined, C>) => Awaitable<PageLayout | Response>;
}

export interface FormSpec<P, B, C> extends PageDoc<P> {
  readonly body?: z.ZodType<B>;
  readonly requestExample?: unknown;
  readonly run: (input: RouteInput<P, undefined, B, C>) => Awaitable<FormResult>;
  /** The page with its form and the error. Without it, an error gets a page of its own. */
  readonly rejected?: (
    input: RouteInput<P, undefined, B, C>,
    error: FormError,
  ) => Awaitable<PageLayout>;
}

/** A page without sessions, such as the sign-in. */
export function publicPageRoute<P = undefined, Q = undefined>(
  spec: PageSpec<P, Q, undefined>,
): Route {
  return toPage(spec, "public");
}

/** A page that requires a session; others are redirected to sign in. */
export function pageRoute<P = undefined, Q = undefined>(spec: PageSpec<P, Q, SessionUser>): Route {
  return toPage(spec, "page");
}

/** A form that requires a session, and the token of the session in its `csrf` field. */
export function formRoute<P = undefined, B = undefined>(spec: FormSpec<P, B, SessionUser>): Route {
  return toForm(spec, "form");
}

/** A page for anyone, signed in or not. */
export function openPageRoute<P = undefined, Q = undefined>(
  spec: PageSpec<P, Q, SessionUser | undefined>,
): Route {
  return toPage(spec, "open-page");
}

/** A form for anyone, which a page of the same origin must have sent. */
export function openFormRoute<P = undefined, B = undefined>(
  spec: FormSpec<P, B, SessionUser | undefined>,
): Route {
  return toForm(spec, "open-form");
}

/** A page that requires the session of an operator. */
export function operatorPageRoute<P = undefined, Q = undefined>(
  spec: Omit<PageSpec<P, Q, Operator>, "tag">,
): Route {
  return toPage({ ...spec, tag: "Operator" }, "operator-page");
}

/** A form that requires the session of an operator. */
export function operatorFormRoute<P = undefined, B = undefined>(
  spec: Omit<FormSpec<P, B, Operator>, "tag">,
): Route {
  return toForm({ ...spec, tag: "Operator" }, "operator-form");
}

const PAGE_DOC = {
  dialect: "page",
  hidden: true,
  faults: [],
  responses: { 200: { description: "A page.", contentType: "text/html" } },
} as const;

function toPage<P, Q, C>({ run, ...doc }: PageSpec<P, Q, C>, kind: RouteKind): Route {
  const respond = async (input: RouteInput<P, Q, undefined, C>): Promise<Response> => {
    const result = await run(input);
    return result instanceof Response ? result : pageResponse(result);
  };
  return toRoute({ ...PAGE_DOC, ...doc, method: "GET", run: respond }, kind);
}

function toForm<P, B, C>({ run, rejected, ...doc }: FormSpec<P, B, C>, kind: RouteKind): Route {
  const submit = async (input: RouteInput<P, undefined, B, C>): Promise<Response> => {
    if (rejected === undefined) return formResponse(await run(input));
    return await submitForm(
      async () => await run(input),
      (error) => rejected(input, error),
    );
  };
  return toRoute({ ...PAGE_DOC, ...doc, method: "POST", run: submit }, kind);
}

/** The response of a form. If the person can correct its error, that of `rejectedPage`; any other error is rethrown. */
export async function submitForm(
  run: () => Promise<FormResult>,
  rejectedPage: (error: FormError) => Awaitable<PageLayout>,
): Promise<Response> {
  try {
    return formResponse(await run());
  } catch (error) {
    const status = error instanceof Fault && error.status === 403 ? 403 : 400;
    return pageResponse(await rejectedPage(formErrorOf(error)), { status });
  }
}

function formResponse(result: FormResult): Response {
  if (result instanceof Response) return result;
  return typeof result === "string" ? redirect(result) : pageResponse(result);
}
