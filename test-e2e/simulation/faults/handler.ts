import type { GuardEvent, HandlerContext } from '@onceward/core'
import { DeadlineExceededError, FatalError } from '@onceward/core'
import type { EventId } from '@onceward/core/ports'
import type { Audit } from '../judge/audit.ts'
import { sendsOf } from '../judge/outbox-audit.ts'
import { type Business, StatementError } from '../stores/transaction.ts'
import type { Life } from '../world/process.ts'
import type { Scheduler } from '../world/scheduler.ts'
import type { Plan } from './plan.ts'

export interface HandlerOptions {
  readonly plan: Plan
  readonly audit: Audit
  readonly scheduler: Scheduler
  readonly life: Life
  /** Kills the process that runs the handler of this event. */
  readonly kill: (by: EventId) => void
}

/** How often each behaviour has shown itself; the same for all processes. */
const wasShown = new WeakMap<Audit, Map<EventId, number>>()

type Context = Pick<
  HandlerContext<Business | undefined>,
  'tx' | 'signal' | 'outbox' | 'defer' | 'pauseFor'
>

/** What the handler of an event returns. */
type Result = { readonly of: string }

export const resultOf = (key: string): Result => ({ of: key })

/** Does to an event what the plan says of it. */
export function createHandler(options: HandlerOptions) {
  const { audit, plan } = options
  return async (event: GuardEvent<unknown>, context: Context): Promise<Result> => {
    const one = audit.byKey(event.key)
    audit.started(one.id, event.attempt)
    audit.pauses.started(options.life, one.key)
    const behaviour = plan.events[one.index]?.behaviour ?? { kind: 'ok' }
    const run = { options, event, context, id: one.id }
    const ended = audit.runs(options.life, one.id)
    context.signal.addEventListener('abort', ended)
    // Past its deadline it has failed, though it still runs.
    const atDeadline = (): void => {
      if (context.signal.reason instanceof DeadlineExceededError) one.failures += 1
    }
    context.signal.addEventListener('abort', atDeadline)
    if (behaviour.kind === 'swallows') one.failures += 1
    const isDeferred = { is: false }
    try {
      await behave({ ...run, isDeferred }, behaviour)
      if (!isDeferred.is) one.successes += 1
      return resultOf(event.key)
    } catch (error) {
      if (isDeferred.is) throw error
      // A statement of a transaction that is over says nothing about the event.
      if (!(error instanceof StatementError) || error.code !== '40001') one.failures += 1
      throw error
    } finally {
      ended()
    }
  }
}

interface Run {
  readonly options: HandlerOptions
  readonly event: GuardEvent<unknown>
  readonly context: Context
  readonly id: EventId
  /** A run that has deferred its event neither fails nor succeeds. */
  readonly isDeferred: { is: boolean }
}

async function behave(run: Run, behaviour: Plan['events'][number]['behaviour']): Promise<void> {
  switch (behaviour.kind) {
    case 'ok':
      return effect(run)
    case 'slow':
      await pause(run, behaviour.ms)
      return effect(run)
    case 'flaky': {
      const isFailing = shows(run, behaviour.times)
      if (isFailing && run.context.tx === undefined) throw new Error('flaky')
      await effect(run)
      if (isFailing) throw new Error('flaky')
      return
    }
    case 'serialization':
    case 'unique':
      if (shows(run, behaviour.times)) {
        await run.context.tx?.refuse(behaviour.kind === 'unique' ? '23505' : '40001')
      }
      return effect(run)
    case 'defers':
      if (!shows(run, behaviour.times)) return effect(run)
      if (run.context.tx !== undefined) await effect(run)
      run.isDeferred.is = true
      try {
        return run.context.defer(2_000)
      } catch (error) {
        if (behaviour.times === 2) return
        throw error
      }
    case 'pauses':
      if (!shows(run, 1)) return effect(run)
      if (run.context.tx !== undefined) await effect(run)
      run.isDeferred.is = true
      run.options.audit.pauses.pausedFor(run.options.life, behaviour.ms)
      return run.context.pauseFor(behaviour.ms)
    case 'always-fails':
      if (run.context.tx !== undefined) await effect(run)
      throw new Error('always fails')
    case 'fatal':
      throw new FatalError('fatal')
    case 'swallows':
      await run.context.tx?.refuse('23505').catch(() => undefined)
      if (run.context.tx === undefined) throw new Error('no transaction')
      return
    case 'hangs':
      await pause(run, 60_000)
      await run.context.tx?.write(run.id, payload(run))
      return
    case 'kills':
      return killOrEffect(run, behaviour.times)
  }
}

/** What a handler does outside of a transaction. Nobody can end a handler that does not heed its signal. */
export const HANDLER_STEPS: readonly string[] = ['dies', 'effect']

async function killOrEffect(run: Run, times: number): Promise<void> {
  const { life, kill, scheduler } = run.options
  if (shows(run, times)) {
    await new Promise<void>((resolve) => {
      scheduler.add(life, 'dies', () => {
        kill(run.id)
        resolve()
      })
    })
  }
  return effect(run)
}

/** The business's write; without a transaction, a call to a service that nobody can take back. */
async function effect({ options, context, id, event }: Run): Promise<void> {
  const { audit, life, plan, scheduler } = options
  if (context.tx !== undefined) {
    await context.tx.write(id, payload({ event }))
    if (plan.outbox === undefined) return
    const { index, key } = audit.caseOf(id)
    for (const message of sendsOf(plan.outbox, index, key)) context.outbox.send(message)
    return
  }
  context.signal.throwIfAborted()
  await new Promise<void>((resolve) => {
    scheduler.add(life, 'effect', () => {
      audit.effectOutside(id)
      resolve()
    })
  })
}

const payload = ({ event }: Pick<Run, 'event'>): string =>
  `${event.key}:${(event.payload as { readonly variant: string }).variant}`

/** Whether the event misbehaves once more; counts it. */
function shows({ options, id }: Run, times: number): boolean {
  const counts = wasShown.get(options.audit) ?? new Map<EventId, number>()
  wasShown.set(options.audit, counts)
  const shown = counts.get(id) ?? 0
  counts.set(id, shown + 1)
  return shown < times
}

function pause({ options }: Run, ms: number): Promise<void> {
  const { life, scheduler } = options
  life.pauses += 1
  return new Promise((resolve) => {
    const end = (): void => {
      life.pauses -= 1
      resolve()
    }
    scheduler.setTimer(life, end, ms)
  })
}
