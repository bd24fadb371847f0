import { messageType } from '../messages/message-type.ts'
import type { Resolver, Route } from '../options/options.ts'
import type { ResolvedOptions, Routes } from '../options/resolved-options.ts'
import { aFunction, brokenRules, type Rule } from '../options/rules.ts'
import { OPTION_RULES } from '../options/table.ts'
import { shown } from '../support/shown.ts'

type AnyRoute = Route<unknown, unknown>
type Table = Readonly<Record<string, AnyRoute>>

/** The options that read or choose types, as they were given. */
interface Given {
  readonly on?: Table | undefined
  readonly schema?: unknown
  readonly type?: Resolver | readonly Resolver[] | undefined
  readonly unknown?: unknown
}

const OWN = ['schema', 'eventKey', 'deadlineMs', 'retry.attempts', 'retry.baseMs', 'retry.maxMs']
const ROUTE_RULES: Readonly<Record<string, Rule>> = {
  handler: { ...aFunction, required: true },
  ...Object.fromEntries(Object.entries(OPTION_RULES).filter(([name]) => OWN.includes(name))),
}

/** What is wrong with the options of a guard with `on`, or beside it. */
export function routeProblems(caller: string, options: object): readonly string[] {
  const { on, schema, type, unknown } = options as Given
  if (on === undefined) {
    return Object.entries({ type, unknown }).flatMap(([name, value]) =>
      value === undefined
        ? []
        : `Expected no \`${name}\` without \`on\`: one handler takes all messages. Give \`on\`, or leave it out.`,
    )
  }
  const beside =
    schema === undefined
      ? []
      : ['Expected no `schema` beside `on`: each type has its own. Move it there.']
  if (typeof on !== 'object' || on === null) return beside
  return [...beside, ...Object.entries(on).flatMap(([name, route]) => ofRoute(caller, name, route))]
}

function ofRoute(caller: string, name: string, route: unknown): readonly string[] {
  const place = `on["${shown(name)}"]`
  if (typeof route !== 'object' || route === null) {
    return [
      `Expected \`${place}\` to be an object with a \`handler\`, got ${route === null ? 'null' : typeof route}. Write \`{ handler }\`.`,
    ]
  }
  const problems = brokenRules(`${place} of ${caller}`, ROUTE_RULES, route)
  return problems.map((text) => (text.startsWith('Expected') ? `${place}: ${text}` : text))
}

/** The options of each type, over those of the guard. */
export function routesOf(given: Given, guard: ResolvedOptions): Routes | undefined {
  if (given.on === undefined) return undefined
  const entries = Object.entries(given.on)
  const byType = new Map(entries.map(([name, route]) => [name, ofType(guard, route)]))
  const { type = messageType(new Set(byType.keys())) } = given
  return { type: typeof type === 'function' ? [type] : [...type], byType }
}

function ofType(guard: ResolvedOptions, route: AnyRoute): ResolvedOptions {
  const { deadlineMs = guard.deadlineMs, eventKey = guard.eventKey, schema } = route
  const own = Object.entries(route.retry ?? {}).filter(([, value]) => value !== undefined)
  const retry = { ...guard.retry, ...Object.fromEntries(own) }
  return Object.freeze({
    ...guard,
    ...{ schema, deadlineMs, retry },
    eventKey: typeof eventKey === 'function' ? [eventKey] : [...eventKey],
    eventKeyChosen: guard.eventKeyChosen || route.eventKey !== undefined,
  })
}

/** Whether functions of the user find the type of a message, or read what has one. */
export const routesReadByUser = ({ on = {}, type }: Given): boolean =>
  type !== undefined ||
  Object.values(on).some(({ eventKey, schema }) => eventKey !== undefined || schema !== undefined)
