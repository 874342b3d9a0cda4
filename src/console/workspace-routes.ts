// Routes of a workspace's pages and forms. Each requires a permission. The verb that a form calls checks it again, in its
// transaction.

import { z } from "zod";
import type { Permission } from "../accounts/members.ts";
import { type Act, personAct } from "../activity/audit.ts";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { FormError } from "../http/pages/page-response.ts";
import {
  formRoute,
  type FormResult,
  type FormSpec,
  pageRoute,
  type PageSpec,
  submitForm,
} from "../http/pages/page-routes.ts";
import type { Route, RouteInput, SessionUser } from "../http/route.ts";
import type { Tx } from "../store/db.ts";
import { type ConsoleReadDeps, requireAccess, type WorkspaceView } from "./require-access.ts";
import { workspaceErrorPage } from "./workspace-error-page.tsx";

export const CONSOLE_PAGE = { tag: "Console", faults: ["not_found", "forbidden"] } as const;

/** The parameters of a page or form that names no others. */
export const AccountPath = z.object({ account: z.string() });
type AccountPath = z.infer<typeof AccountPath>;

function docOf<P>() {
  // Safe because P is AccountPath where a page or form names no parameters.
  return { ...CONSOLE_PAGE, params: AccountPath as unknown as z.ZodType<P> };
}

type WorkspaceInput<P, Q, B> = RouteInput<P, Q, B, SessionUser> & {
  readonly account: string;
  readonly view: WorkspaceView;
};

interface WorkspacePageSpec<P, Q> extends Omit<PageSpec<P, Q, SessionUser>, "tag" | "run"> {
  readonly permission: Permission;
  readonly run: (
    input: WorkspaceInput<P, Q, undefined>,
  ) => Promise<PageLayout | Response> | PageLayout | Response;
}

export function workspacePage<P extends AccountPath = AccountPath, Q = undefined>(
  deps: ConsoleReadDeps,
  { permission, run, ...spec }: WorkspacePageSpec<P, Q>,
): Route {
  return pageRoute<P, Q>({
    ...docOf<P>(),
    ...spec,
    run: async (input) => {
      try {
        return await run(await withAccess(deps, input, permission));
      } catch (error) {
        const { account } = input.params;
        return await workspaceErrorPage(deps, { ...input, account }, error);
      }
    },
  });
}

type FormInput<P, B> = WorkspaceInput<P, undefined, B>;

interface WorkspaceFormSpec<P, B, V, R> extends Omit<
  FormSpec<P, B, SessionUser>,
  "tag" | "run" | "rejected"
> {
  readonly permission: Permission | ((body: B) => Permission);
  /** Runs before the transaction, such as a check at a provider. `write` gets its result. */
  readonly prepare?: (input: FormInput<P, B>) => V | Promise<V>;
  readonly write: (
    tx: Tx,
    input: FormInput<P, B> & { readonly act: Act },
    prepared: V,
  ) => Promise<R>;
  readonly done: (input: FormInput<P, B>, result: R) => FormResult | Promise<FormResult>;
  /** The page with its form and the error. Without it, an error gets a page of its own. */
  readonly rejected?: (
    input: FormInput<P, B>,
    error: FormError,
  ) => PageLayout | Promise<PageLayout>;
}

export function workspaceForm<B, P extends AccountPath = AccountPath, V = void, R = unknown>(
  deps: ConsoleReadDeps,
  { permission, prepare, write, done, rejected, ...spec }: WorkspaceFormSpec<P, B, V, R>,
): Route {
  return formRoute<P, B>({
    ...docOf<P>(),
    ...spec,
    run: async (sent) => {
      try {
        return await submitted(sent);
      } catch (error) {
        const { account } = sent.params;
        return await workspaceErrorPage(deps, { ...sent, account }, error);
      }
    },
  });
  async function submitted(sent: RouteInput<P, undefined, B, SessionUser>): Promise<FormResult> {
    const required = typeof permission === "string" ? permission : permission(sent.body);
    const input = await withAccess(deps, sent, required);
    const { account, caller } = input;
    const submit = async (): Promise<FormResult> => {
      // Safe because without `prepare`, the type of its result is void.
      const prepared = (await prepare?.(input)) as V;
      const act = personAct(account, caller.personId, input);
      const result = await deps.db.write((tx) => write(tx, { ...input, act }, prepared));
      return await done(input, result);
    };
    return rejected === undefined
      ? await submit()
      : await submitForm(submit, (error) => rejected(input, error));
  }
}

async function withAccess<P extends AccountPath, Q, B>(
  deps: ConsoleReadDeps,
  input: RouteInput<P, Q, B, SessionUser>,
  permission: Permission,
): Promise<WorkspaceInput<P, Q, B>> {
  const { params, caller: user } = input;
  const { account } = params;
  const workspace = await requireAccess(deps, account, user.personId, permission);
  return { ...input, account, view: { user, workspace } };
}
