import type { Logger } from '../model/logger.ts'
import { processTable } from '../support/adapter-registry.ts'
import type { HandlerCall } from '../transaction/engine.ts'

/** A guard that is open, with the source text of its handlers: those that one factory makes are the same. */
interface OpenGuard {
  readonly handlers: string
}

const openGuards = processTable<Set<OpenGuard>>('open-guards')

const DIFFERENT =
  'two guards of this consumer have different handlers in one process: an event is done for both once it has run in one of them. Give each guard its own `consumer`'

/**
 * Notes a guard whose inbox is open, and says if another one of its consumer has another handler.
 *
 * @param secret - Of the inbox: the same for all guards on the same tables.
 * @returns Forgets the guard.
 */
export function noteGuard(
  { consumer, logger }: { readonly consumer: string; readonly logger: Logger },
  call: HandlerCall,
  secret: Uint8Array,
): () => void {
  const name = `${consumer} ${Buffer.from(secret).toString('hex')}`
  const guard: OpenGuard = { handlers: textOf(call) }
  const guards = openGuards.get(name) ?? new Set()
  openGuards.set(name, guards)
  const isSame = (other: OpenGuard): boolean => other.handlers === guard.handlers
  if (![...guards].every(isSame)) logger.error({ consumer }, DIFFERENT)
  guards.add(guard)
  return () => {
    guards.delete(guard)
    if (guards.size === 0 && openGuards.get(name) === guards) openGuards.delete(name)
  }
}

function textOf({ byType, handler }: HandlerCall): string {
  return [handler, ...(byType?.values() ?? [])]
    .map((each) => Function.prototype.toString.call(each))
    .join('\n')
}
