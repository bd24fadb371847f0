import { unescapeText } from '@onceward/postgres/operator'

/** As stored: escaped as in a JSON string. */
interface Keyed {
  readonly key: string | null
  readonly tenant: string | null
}

/** Keys and tenants as they were, and not as they are stored. */
export function readable<Shown extends Keyed>(letter: Shown): Shown {
  const text = (stored: string | null): string | null =>
    stored === null ? null : unescapeText(stored)
  return { ...letter, key: text(letter.key), tenant: text(letter.tenant) }
}
