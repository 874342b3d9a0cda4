/** @jsxImportSource hono/jsx */
// Form components of the app pages.

import type { Child } from "hono/jsx";

/** A select that filters a list by one value. */
export function FilterSelect({
  name,
  label,
  allLabel,
  options,
  selected,
}: {
  readonly name: string;
  readonly label: string;
  /** The label of the option without a filter. */
  readonly allLabel: string;
  readonly options: readonly (string | { readonly value: string; readonly label: string })[];
  readonly selected: string | undefined;
}): Child {
  return (
    <div>
      <label for={name}>{label}</label>
      <select id={name} name={name}>
        <option value="">{allLabel}</option>
        {options.map((option) => {
          const { value, label } =
            typeof option === "string" ? { value: option, label: option } : option;
          return (
            <option value={value} selected={value === selected}>
              {label}
            </option>
          );
        })}
      </select>
    </div>
  );
}

interface PostFormProps {
  /** The person or operator, whose CSRF token the form sends; undefined if there is no session. */
  readonly user: { readonly csrf: string } | undefined;
  readonly action: string;
  /** Hidden fields. */
  readonly fields?: Readonly<Record<string, string>>;
  readonly id?: string;
  readonly class?: string | undefined;
  /** The label of its button below the fields; absent if the children have the buttons. */
  readonly submit?: Child;
  readonly isSecondary?: boolean;
  readonly children?: Child;
}

/** A form that sends a POST request with the CSRF token of the session. */
export function PostForm(props: PostFormProps): Child {
  const { user, action, fields = {}, submit, isSecondary, children } = props;
  return (
    <form id={props.id} class={props.class} method="post" action={action}>
      {user === undefined ? null : <HiddenFields fields={{ csrf: user.csrf }} />}
      <HiddenFields fields={fields} />
      {children}
      {submit === undefined ? null : (
        <div class="actions">
          <button type="submit" class={isSecondary === true ? "secondary" : undefined}>
            {submit}
          </button>
        </div>
      )}
    </form>
  );
}

export function HiddenFields({
  fields,
}: {
  readonly fields: Readonly<Record<string, string>>;
}): Child {
  return (
    <>
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
    </>
  );
}

interface FieldProps {
  readonly id: string;
  readonly name: string;
  readonly label: string;
  readonly value?: string | undefined;
  readonly type?: string;
  readonly hint?: Child;
  /** What is wrong with the value; shown below the field. */
  readonly error?: string | undefined;
  readonly isRequired?: boolean;
  readonly maxLength?: number;
  readonly inputMode?: "decimal" | "numeric";
  readonly autoComplete?: string;
  readonly placeholder?: string;
}

/** A labeled input with a hint and its own error message. */
export function Field(props: FieldProps): Child {
  const { id, name, label, value, type = "text", hint, error } = props;
  return (
    <FieldFrame id={id} label={label} hint={hint} error={error}>
      <input
        id={id}
        name={name}
        type={type}
        value={value}
        required={props.isRequired}
        maxlength={props.maxLength}
        inputmode={props.inputMode}
        autocomplete={props.autoComplete}
        placeholder={props.placeholder}
        aria-invalid={error === undefined ? undefined : "true"}
        aria-describedby={describedBy(props)}
      />
    </FieldFrame>
  );
}

/** A labeled input of several lines, with a hint and its own error message. */
export function TextField(
  props: Omit<FieldProps, "type" | "inputMode"> & { readonly rows?: number },
): Child {
  const { id, name, label, value, hint, error } = props;
  return (
    <FieldFrame id={id} label={label} hint={hint} error={error}>
      <textarea
        id={id}
        name={name}
        rows={props.rows ?? 3}
        maxlength={props.maxLength}
        placeholder={props.placeholder}
        aria-invalid={error === undefined ? undefined : "true"}
        aria-describedby={describedBy(props)}
      >
        {value}
      </textarea>
    </FieldFrame>
  );
}

type FrameProps = Pick<FieldProps, "id" | "label" | "hint" | "error">;

function FieldFrame({
  id,
  label,
  hint,
  error,
  children,
}: FrameProps & { readonly children: Child }): Child {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children}
      {error === undefined ? null : (
        <p id={`${id}-error`} class="field-error" role="alert">
          {error}
        </p>
      )}
      {hint === undefined ? null : (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
    </div>
  );
}

function describedBy({ id, hint, error }: FrameProps): string | undefined {
  const ids = [
    ...(error === undefined ? [] : [`${id}-error`]),
    ...(hint === undefined ? [] : [`${id}-hint`]),
  ];
  return ids.join(" ") || undefined;
}

interface SelectFieldProps {
  /** The name, unless it is given. */
  readonly id?: string;
  readonly name: string;
  readonly label: string;
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly value: string | undefined;
}

/** A labeled select of a form. */
export function SelectField({ name, id = name, label, options, value }: SelectFieldProps): Child {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select id={id} name={name}>
        {options.map(([each, text]) => (
          <option value={each} selected={each === value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

interface OptionProps {
  readonly id: string;
  readonly input: {
    readonly type: "radio" | "checkbox";
    readonly name: string;
    readonly value: string;
  };
  readonly isChecked: boolean;
  readonly label: Child;
}

/** A radio button or a checkbox, with its label. */
export function Option({ id, input, isChecked, label }: OptionProps): Child {
  return (
    <div class="option">
      <input id={id} {...input} checked={isChecked} />
      <label for={id}>
        <bdi>{label}</bdi>
      </label>
    </div>
  );
}

export function ErrorMessage({ message }: { readonly message: string | undefined }): Child {
  return message === undefined ? null : (
    <p class="error" role="alert">
      {message}
    </p>
  );
}
