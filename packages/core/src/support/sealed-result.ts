import type { Json } from '../model/brands.ts'

/** The only field of a result that is stored sealed. A handler that returns such a value is refused. */
export const SEALED_RESULT = 'onceward-sealed'

export interface SealedResult {
  readonly [SEALED_RESULT]: string
}

export function isSealedResult(result: Json | undefined): result is SealedResult & Json {
  if (typeof result !== 'object' || result === null || !(SEALED_RESULT in result)) return false
  return typeof result[SEALED_RESULT] === 'string' && Object.keys(result).length === 1
}
