import { AsyncLocalStorage } from 'node:async_hooks'
import {
  Catch,
  type ExceptionFilter,
  type NestInterceptor,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common'
import { isObservable, lastValueFrom, Observable } from 'rxjs'

/** One run of one `@EventPattern` handler. */
interface Run {
  failed?: { readonly error: unknown }
}

const runs = new AsyncLocalStorage<Run>()

/**
 * Nest asks each filter of a handler whether an error is an instance of what it catches. This one is never an instance, so
 * filters of the application are asked next; but the run knows the error. Nest's default filter replaces it by
 * `{ status: 'error' }`, and a filter that answers `EMPTY` hides it: both would lose that the run has failed, or why.
 */
const AnyError = {
  [Symbol.hasInstance]: (error: unknown): boolean => {
    const run = runs.getStore()
    if (run !== undefined) run.failed ??= { error }
    return false
  },
}

class WitnessFilter implements ExceptionFilter {
  catch(error: unknown): never {
    throw error
  }
}

Catch(AnyError as never)(WitnessFilter)

/** Streams may go on in another asynchronous context, as that of a socket. */
const keepingRun: NestInterceptor = {
  intercept: (_, next) => {
    const run = runs.getStore()
    if (run === undefined) return next.handle()
    return new Observable((subscriber) =>
      next.handle().subscribe({
        next: (value) => runs.run(run, () => subscriber.next(value)),
        error: (error) => runs.run(run, () => subscriber.error(error)),
        complete: () => runs.run(run, () => subscriber.complete()),
      }),
    )
  },
}

const WATCHED = new WeakSet<object>()
const HANDLER_TYPE = 'microservices:handler_type'
const EVENT = 2

/** Whether a method has `@EventPattern`. */
export const isEventHandler = (method: object): boolean =>
  Reflect.getMetadata(HANDLER_TYPE, method) === EVENT

/**
 * Lets {@link runWatched} know every error of a handler. Before Nest makes its handlers. A class that several applications
 * use is changed once: without a run, nothing happens.
 */
export function watch(prototype: object, key: string): void {
  const descriptor = Object.getOwnPropertyDescriptor(prototype, key)
  const method: unknown = Reflect.get(prototype, key)
  if (typeof method !== 'function' || WATCHED.has(method)) return
  WATCHED.add(method)
  const of = descriptor ?? { value: method }
  UseFilters(new WitnessFilter())(prototype, key, of)
  UseInterceptors(keepingRun)(prototype, key, of)
}

/** Runs a handler of Nest to its end. Throws what it threw, whatever a filter made of it. */
export async function runWatched(handler: () => unknown): Promise<unknown> {
  const run: Run = {}
  try {
    const value = await runs.run(run, () => end(handler))
    if (run.failed === undefined) return value
  } catch (error) {
    if (run.failed === undefined) throw toError(error)
  }
  throw run.failed.error
}

async function end(handler: () => unknown): Promise<unknown> {
  const answer = await handler()
  return isObservable(answer) ? lastValueFrom(answer, { defaultValue: undefined }) : answer
}

/** Nest's own answer to an error is a plain object. */
function toError(error: unknown): unknown {
  if (error instanceof Error || typeof error !== 'object' || error === null) return error
  return new Error(String(Reflect.get(error, 'message') ?? 'the handler failed'), { cause: error })
}
