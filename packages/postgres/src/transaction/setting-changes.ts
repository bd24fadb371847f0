import { statementTokens } from './statement-tokens.ts'

/** Most texts contain nothing of this, so their statements need no look. A line break begins a match of its own. */
const SUSPECT = /set_config|(?:^|[;\r\n]|\*\/)[^\S\r\n]*(?:set|reset|discard|do)\b/i
const CHANGING = /^(?:set|reset|discard|do)$/
const SET_CONFIG = /^"?set_config"?$/

/**
 * Whether a text of one or more statements changes a setting or the role of its session: with `set`, `reset`, `discard`,
 * `set_config` or in a `do` block. A function of a user, a trigger, a policy, a view or an operator that does is not seen.
 */
export function mayChangeSettings(text: string): boolean {
  if (!SUSPECT.test(text)) return false
  // With \ in a text, what is inside of a string depends on a setting.
  return changes(text, false) || (text.includes('\\') && changes(text, true))
}

function changes(text: string, escapes: boolean): boolean {
  let isFirst = true
  for (const token of statementTokens(text, escapes)) {
    if ((isFirst && CHANGING.test(token)) || SET_CONFIG.test(token)) return true
    isFirst = token === ';'
  }
  return false
}
