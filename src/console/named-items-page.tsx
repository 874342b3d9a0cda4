/** @jsxImportSource hono/jsx */
// The page of things that a workspace keeps by name, such as presets: a table, the confirmation of a deletion, and the forms that
// save one.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { authorize, hasPermission, type Permission } from "../accounts/members.ts";
import type { Act } from "../activity/audit.ts";
import { ResourceName } from "../activity/named-resource-routes.ts";
import { Card, EmptyState } from "../http/pages/components/content.tsx";
import { ErrorMessage, Field, PostForm } from "../http/pages/components/form.tsx";
import { type Column, Table } from "../http/pages/components/table.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { FormError } from "../http/pages/page-response.ts";
import type { Route, SessionUser } from "../http/route.ts";
import type { Reader, Tx } from "../store/db.ts";
import { checkedForm } from "./checked-form.ts";
import { ConfirmDelete, ConfirmLink, withQuery } from "./confirm.tsx";
import { consolePage, type ConsolePath, workspacePath } from "./console-layout.tsx";
import { DoneNotice, donePath, DoneQuery } from "./done-notice.tsx";
import type { ConsoleReadDeps, WorkspaceView } from "./require-access.ts";
import { workspaceForm, workspacePage } from "./workspace-routes.ts";

const Name = z.string().max(100);
const DeleteForm = z.object({ do: z.literal("delete"), name: Name });
type DeleteForm = z.infer<typeof DeleteForm>;

/** Every form that saves an item has this field; the name is checked when it is saved. */
export const NAME_FIELD = { name: Name };

export type FormValues = Readonly<Record<string, string | undefined>>;
type SaveForm = FormValues & { readonly do: string; readonly name: string };

/** What the forms of the page show. */
export interface ItemForms<T> {
  readonly user: SessionUser;
  readonly path: string;
  readonly items: readonly T[];
  /** The values of the rejected form with this `do`, or of the item that is edited. */
  readonly valuesOf: (kind: string) => FormValues | undefined;
  readonly error: FormError | undefined;
}

interface NamedItems<T, B> {
  readonly page: ConsolePath;
  readonly title: string;
  /** As in the ids of routes, such as `McpServer`. */
  readonly id: string;
  readonly article?: "a" | "an";
  readonly noun: string;
  readonly permissions: { readonly read: Permission; readonly change: Permission };
  /** The page of the documentation. */
  readonly docs: { readonly href: string; readonly label: string };
  /** What happens once one is saved, or deleted. */
  readonly notes: Readonly<Record<"save" | "delete", string>>;
  /** What they are for, while there is none. */
  readonly purpose: Child;
  /** Between the name and the actions. */
  readonly columns: readonly Column[];
  readonly cells: (item: T) => readonly Child[];
  readonly forms: (props: ItemForms<T>) => Child;
  readonly body: z.ZodType<B>;
  readonly requestExample: FormValues;
  /** Fields that show their errors themselves. */
  readonly fieldsWithErrors?: readonly string[];
  readonly list: (reader: Reader, accountId: string) => Promise<readonly T[]>;
  /** The values of the form that edits one. */
  readonly edit?: (item: T) => FormValues;
  readonly save: (tx: Tx, act: Act, name: string, form: B) => Promise<unknown>;
  readonly remove: (tx: Tx, act: Act, name: string) => Promise<unknown>;
  readonly onChanged?: () => void;
}

interface Shown extends WorkspaceView {
  readonly asked?: string | undefined;
  readonly edited?: string | undefined;
  readonly done?: string | undefined;
  readonly rejected?: { readonly form: FormValues; readonly error: FormError };
}

export function namedItemsRoutes<T extends { readonly name: string }, B extends SaveForm>(
  deps: ConsoleReadDeps,
  spec: NamedItems<T, B>,
): readonly Route[] {
  const { page, id, article = "a", noun, permissions } = spec;
  const path = `/console/{account}${page}`;
  const show = async (account: string, shown: Shown): Promise<PageLayout> =>
    itemsPage(spec, await spec.list(deps.db, account), shown);
  return [
    workspacePage(deps, {
      path,
      id: `show${id}s`,
      summary: `List the ${noun}s of a workspace`,
      query: z.object({ ...DoneQuery, delete: Name.optional(), edit: Name.optional() }),
      permission: permissions.read,
      run: ({ view, account, query: { delete: asked, edit: edited, done } }) =>
        show(account, { ...view, asked, edited, done }),
    }),
    workspaceForm(deps, {
      path,
      id: `change${id}s`,
      summary: `Save or delete ${article} ${noun}`,
      body: z.union([DeleteForm, spec.body]),
      requestExample: spec.requestExample,
      permission: permissions.change,
      write: async (tx, { act, body }) => {
        await authorize(tx, act, permissions.change);
        if (isDelete(body)) return spec.remove(tx, act, body.name);
        const { name } = checkedForm(z.object({ name: ResourceName }), { name: body.name.trim() });
        return spec.save(tx, act, name, body);
      },
      done: ({ account, body }) => {
        spec.onChanged?.();
        return donePath(workspacePath(account, page), isDelete(body) ? "delete" : "save");
      },
      rejected: ({ view, account, body: form }, error) =>
        show(account, { ...view, rejected: { form, error } }),
    }),
  ];
}

function isDelete(body: SaveForm | DeleteForm): body is DeleteForm {
  return body.do === "delete";
}

function itemsPage<T extends { readonly name: string }, B>(
  spec: NamedItems<T, B>,
  items: readonly T[],
  { user, workspace, asked, edited, done, rejected }: Shown,
): PageLayout {
  const { page, title, noun, docs, notes } = spec;
  const path = workspacePath(workspace.accountId, page);
  const canChange = hasPermission(workspace.role, spec.permissions.change);
  const error = rejected?.error;
  const isAtField = spec.fieldsWithErrors?.includes(error?.field ?? "") === true;
  const editedItem = items.find(({ name }) => name === edited);
  const values = editedItem === undefined ? rejected?.form : spec.edit?.(editedItem);
  return consolePage({
    title,
    workspace,
    user,
    page,
    actions: <a href={docs.href}>{docs.label}</a>,
    main: (
      <>
        <DoneNotice
          texts={{
            save: `The ${noun} is saved. ${notes.save}`,
            delete: `The ${noun} is deleted. ${notes.delete}`,
          }}
          done={done}
        />
        <ErrorMessage message={isAtField ? undefined : error?.message} />
        {canChange ? (
          <ConfirmDelete user={user} path={path} noun={noun} items={items} asked={asked}>
            Delete {asked}? {notes.delete}
          </ConfirmDelete>
        ) : null}
        <div class="card">
          {items.length === 0 ? (
            <EmptyState title={`No ${noun}s yet`}>
              <p class="muted">{spec.purpose}</p>
            </EmptyState>
          ) : (
            <ItemTable spec={spec} items={items} path={path} canChange={canChange} />
          )}
        </div>
        {canChange
          ? spec.forms({
              user,
              path,
              items,
              valuesOf: (kind) => (values?.["do"] === kind ? values : undefined),
              error,
            })
          : null}
      </>
    ),
  });
}

interface ItemTableProps<T, B> {
  readonly spec: NamedItems<T, B>;
  readonly items: readonly T[];
  readonly path: string;
  readonly canChange: boolean;
}

function ItemTable<T extends { readonly name: string }, B>({
  spec,
  items,
  path,
  canChange,
}: ItemTableProps<T, B>): Child {
  return (
    <Table
      label={spec.title}
      isStacked
      columns={[{ name: "Name" }, ...spec.columns, { name: "Actions", isNumber: true }]}
      rows={items.map((item) => [
        <ItemName item={item} path={path} kind={canChange ? spec.edit?.(item)["do"] : undefined} />,
        ...spec.cells(item),
        canChange ? (
          <ConfirmLink
            href={withQuery(path, { delete: item.name })}
            label="Delete"
            subject={item.name}
          />
        ) : (
          "–"
        ),
      ])}
    />
  );
}

/** `kind` is that of the form that edits the item, if the page has one. */
function ItemName({
  item: { name },
  path,
  kind,
}: {
  readonly item: { readonly name: string };
  readonly path: string;
  readonly kind: string | undefined;
}): Child {
  return kind === undefined ? (
    <span class="line">{name}</span>
  ) : (
    <a class="line" href={`${withQuery(path, { edit: name })}#${kind}`}>
      {name}
    </a>
  );
}

interface ItemFormProps {
  readonly props: Pick<ItemForms<unknown>, "user" | "path">;
  /** `do` of the form, and the id of its card. */
  readonly kind: string;
  readonly title: string;
  readonly submit: string;
  readonly name: string | undefined;
  readonly nameError?: string | undefined;
  readonly nameHint?: string;
  /** Whether the form is open, on a page with several forms. */
  readonly isOpen?: boolean;
  readonly children: Child;
}

/** A form that saves an item: its name, and what the children ask for. */
export function ItemForm({ props, kind, title, submit, name = "", ...more }: ItemFormProps): Child {
  const { nameError, nameHint = "An existing name is replaced.", isOpen, children } = more;
  return (
    <Card id={kind} title={title} isOpen={isOpen}>
      <PostForm user={props.user} action={props.path} fields={{ do: kind }} submit={submit}>
        <Field
          id={`${kind}-name`}
          name="name"
          label="Name"
          value={name}
          error={nameError}
          hint={`Lowercase letters, digits, - and _. ${nameHint}`}
          maxLength={64}
          isRequired
        />
        {children}
      </PostForm>
    </Card>
  );
}
