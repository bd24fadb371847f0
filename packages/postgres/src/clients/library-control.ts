import type { OncewardError } from '@onceward/core'
import type { QueryResult } from 'pg'

const BEGINS = /^\s*(?:begin|start\s+transaction|set\s+transaction)\b/i
const ENDS = /^\s*(?:commit|rollback|release)\b/i

/**
 * The BEGIN and the COMMIT of a library that is given a client of onceward. The guard has sent the real BEGIN with its
 * claim, and sends the real COMMIT with its own statements, so those of the library are answered here and cost no round
 * trip. Whatever begins or ends the transaction in between comes from the handler, and is refused.
 */
export class LibraryControl {
  /** The library is `beginning`, then the handler has the transaction, then the library is `ending`. */
  phase: 'beginning' | 'handler' | 'ending' = 'beginning'
  /** Why the handler's run fails although the library may have hidden the refusal from it. */
  refused: OncewardError | undefined

  /** The answer to a text that is not sent. Undefined if it is the handler's. */
  answer(text: string | undefined): QueryResult | undefined {
    if (this.phase === 'handler' || text === undefined) return undefined
    const isOwn = (this.phase === 'beginning' ? BEGINS : ENDS).test(text)
    return isOwn ? { command: '', rowCount: 0, oid: 0, rows: [], fields: [] } : undefined
  }
}
