import { EventEmitter } from 'node:events'
import { turn } from '@onceward/testing/adapter'
import { CompiledQuery, type DatabaseConnection } from 'kysely'
import type { Connection } from 'pg'
import { describe, expect, it, test, vi } from 'vitest'
import { kyselyOnOther, kyselyOnPg } from '../fixtures/kysely.ts'
import { surviveLoss, wireOf } from './kysely-wire.ts'

/** A connection of Kysely, for as long as the test. */
async function lend({
  db,
}: Pick<ReturnType<typeof kyselyOnPg>, 'db'>): Promise<DatabaseConnection> {
  const lent = Promise.withResolvers<DatabaseConnection>()
  void db.getExecutor().provideConnection(async (connection) => {
    lent.resolve(connection)
    await new Promise(() => undefined)
  })
  return lent.promise
}

/** What the guard needs of it: a minifier renames the class. */
const METHODS = ['cancelQuery', 'collectSessionInfo', 'killSession'] as const
const renamed = (over: object): DatabaseConnection => {
  const methods = METHODS.map((name) => [name, async () => undefined])
  return { ...Object.fromEntries(methods), ...over } as DatabaseConnection
}

describe('the connection of pg below a connection of Kysely', () => {
  it('is found, and sends nothing', async () => {
    const given = kyselyOnPg()
    const client = await given.pool.connect()
    client.release()
    const connection = await lend(given)
    expect(await wireOf(connection)).toBe(client.connection)
    expect(wireOf(connection)).toBe(wireOf(connection))
    expect(given.server.sent).toEqual([])
    expect((await connection.executeQuery(CompiledQuery.raw('select'))).rows).toEqual([])
  })

  it('is found once the statement that runs has ended', async () => {
    const given = kyselyOnPg({ select: { hangs: true } })
    const client = await given.pool.connect()
    client.query('select').catch(() => undefined)
    client.release()
    const found = vi.fn()
    void wireOf(await lend(given)).then(found)
    await turn()
    expect(found).not.toHaveBeenCalled()
    given.server.backends[0]?.goOn()
    await turn()
    expect(found).toHaveBeenCalledWith(client.connection)
  })

  it('is found although the class has another name', async () => {
    const given = kyselyOnPg()
    const connection = await lend(given)
    const executeQuery: DatabaseConnection['executeQuery'] = (query) =>
      connection.executeQuery(query)
    expect(await wireOf(renamed({ executeQuery }))).toBeDefined()
  })

  // Red when a statement without a text is sent by a client that has no such objects.
  it.each(METHODS)('is not looked for where %s is missing', async (name) => {
    const executeQuery = vi.fn()
    expect(await wireOf(renamed({ executeQuery, [name]: undefined }))).toBeUndefined()
    expect(await wireOf(await lend(kyselyOnOther()))).toBeUndefined()
    expect(executeQuery).not.toHaveBeenCalled()
  })

  it.each<[string, () => Promise<unknown>]>([
    ['refuses the object', () => Promise.reject(new TypeError('expected a text'))],
    ['takes it for a statement', async () => ({ rows: [] })],
  ])('is not found where another client %s', async (_, executeQuery) => {
    expect(await wireOf(renamed({ executeQuery }))).toBeUndefined()
  })

  interface Probe {
    readonly rows: readonly unknown[]
    submit(wire: unknown): Error
    callback(): void
    handleError(error: unknown, wire?: unknown): void
  }
  const probing = (ask: (probe: Probe) => void): DatabaseConnection =>
    renamed({
      executeQuery: async ({ sql }: { readonly sql: unknown }) => {
        ask(sql as Probe)
        return { rows: (sql as Probe).rows }
      },
    })
  const wire = (destroyed: boolean) => ({ stream: { destroyed } })

  // In pipeline mode pg refuses the object.
  it('is the one that pg names when it refuses', async () => {
    const named = wire(false)
    const refused = (probe: Probe) => probe.handleError(new Error('no'), named)
    expect(await wireOf(probing(refused))).toBe(named)
  })

  // Red when a connection that has ended already is listened to: it would never be released.
  it.each<[string, unknown]>([
    ['one that has ended', wire(true)],
    ['none', undefined],
    ['one without a socket', {}],
  ])('is not known where pg names %s', async (_, named) => {
    const thrown = vi.fn()
    const refused = (probe: Probe) => {
      try {
        probe.handleError(new Error('no'), named)
      } catch (error) {
        // pg calls it in a turn of its own, where an error ends the process.
        thrown(error)
      }
    }
    expect(await wireOf(probing(refused))).toBeUndefined()
    expect(thrown).not.toHaveBeenCalled()
  })

  it('is found by the name of the class where the methods are missing', async () => {
    const taken = wire(false)
    class PostgresConnection {
      executeQuery = async ({ sql }: { readonly sql: unknown }) => {
        const probe = sql as Probe
        probe.submit(taken)
        probe.callback()
        return { rows: probe.rows }
      }
    }
    expect(await wireOf(new PostgresConnection() as never)).toBe(taken)
  })

  it('is the one that took the object, also where an error names another', async () => {
    const [taken, named] = [wire(false), wire(false)]
    const both = (probe: Probe) => {
      expect(probe.submit(taken)).toBeInstanceOf(Error)
      probe.handleError(new Error('no'), named)
    }
    expect(await wireOf(probing(both))).toBe(taken)
  })
})

describe('the loss of a connection', () => {
  /** A connection of pg to whose client nobody listens. */
  function unheard() {
    const wire = new EventEmitter()
    const thrown: { error: unknown } = { error: new Error('Connection terminated unexpectedly') }
    for (const name of ['error', 'errorMessage', 'end', 'notice']) {
      wire.on(name, () => {
        throw thrown.error
      })
    }
    return { wire: wire as unknown as Connection, thrown }
  }
  const endsProcess = (wire: Connection, name = 'end'): boolean => {
    try {
      expect(wire.emit(name)).toBe(true)
      return false
    } catch {
      return true
    }
  }

  it('does not end the process while somebody uses the connection', () => {
    const { wire } = unheard()
    const undo = [surviveLoss(wire), surviveLoss(wire)]
    const { emit } = wire
    for (const name of ['error', 'errorMessage', 'end']) expect(endsProcess(wire, name)).toBe(false)
    expect(endsProcess(wire, 'notice')).toBe(true)
    undo[0]?.()
    expect(endsProcess(wire)).toBe(false)
    undo[1]?.()
    expect(endsProcess(wire)).toBe(true)
    surviveLoss(wire)
    expect([endsProcess(wire), wire.emit]).toEqual([false, emit])
  })

  // The pool has removed an idle client already, and connects anew.
  it('never ends the process while the connection is idle', () => {
    const { wire, thrown } = unheard()
    surviveLoss(wire)()
    expect(endsProcess(wire)).toBe(true)
    thrown.error = Object.assign(new Error('ended'), { client: {} })
    expect(endsProcess(wire)).toBe(false)
    expect(endsProcess(wire, 'notice')).toBe(true)
    thrown.error = { client: {} }
    expect(endsProcess(wire)).toBe(true)
  })

  it('is told to those who listen', () => {
    const wire = new EventEmitter() as unknown as Connection
    surviveLoss(wire)
    expect(wire.emit('end')).toBe(false)
    const heard = vi.fn()
    wire.on('error', heard)
    expect(wire.emit('error', new Error('one'), 2)).toBe(true)
    expect(heard).toHaveBeenCalledExactlyOnceWith(new Error('one'), 2)
  })
})

test('two connections of one pool are told apart', async () => {
  const given = kyselyOnPg()
  const wires = await Promise.all([lend(given), lend(given)].map(async (one) => wireOf(await one)))
  expect(wires[0]).not.toBe(wires[1])
})
