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

export function ErrorMessage({ message }: { readonly message: string | undefined }): Child {
  return message === undefined ? null : (
    <p class="error" role="alert">
      {message}
    </p>
  );
}
