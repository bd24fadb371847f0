import type { Defaults } from './options.ts'
import type { DefaultedOptions } from './resolved-options.ts'
import type { Rule } from './rules.ts'
import { OPTIONS } from './table.ts'

/** One row of the option table in docs/configuration.md, which is rendered from {@link OPTION_DOCS}. */
export interface OptionDoc {
  /** As the user writes it, `retry.attempts` for nested ones. */
  readonly name: string
  readonly type: string
  readonly unit?: string | undefined
  /** Undefined: the option is required, or doing without it is the default; the reason says which. */
  readonly default?: string | number | undefined
  readonly meaning: string
  readonly reason: string
}

type AnyRow = Omit<OptionDoc, 'name'> & { readonly rule: Rule; readonly defaultText?: string }

const ROWS: readonly (readonly [string, AnyRow])[] = Object.entries<AnyRow>(OPTIONS)

/** All options of `createGuard`, in the order in which one reads about them. */
export const OPTION_DOCS: readonly OptionDoc[] = ROWS.map(
  ([name, { rule: _rule, defaultText, ...doc }]) => ({
    name,
    ...doc,
    default: doc.default ?? defaultText,
  }),
)

/** One rule per option of `createGuard`; nested ones as `retry.attempts`. */
export const OPTION_RULES: Readonly<Record<string, Rule>> = Object.fromEntries(
  ROWS.map(([name, { rule }]) => [name, rule]),
)

/**
 * Every default of a guard. Unit and reason of each stand in `OPTION_DOCS`, from which docs/configuration.md is rendered.
 */
export const DEFAULTS: Defaults = frozenDefaults()

function frozenDefaults(): Defaults {
  const flat: Record<string, unknown> = {}
  const retry: Record<string, unknown> = {}
  for (const [name, { default: value }] of ROWS) {
    if (value === undefined) continue
    if (name.startsWith('retry.')) retry[name.slice('retry.'.length)] = value
    else flat[name] = value
  }
  // `OptionTable` has a default of the right type for each member of `Defaults`.
  return Object.freeze({ ...flat, retry: Object.freeze(retry) }) as unknown as Defaults
}

/** The options that have a default: each as given, or else its default. */
export function withDefaults(given: Partial<Record<keyof Defaults, unknown>>): DefaultedOptions {
  return merged(DEFAULTS, given) as DefaultedOptions
}

function merged(defaults: object, given: object): object {
  return Object.freeze(
    Object.fromEntries(
      Object.entries(defaults).map(([name, value]) => {
        const own: unknown = Reflect.get(given, name)
        return [name, typeof value === 'object' ? merged(value, Object(own)) : (own ?? value)]
      }),
    ),
  )
}
