import { LATE } from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import { describe, expect, it, vi } from 'vitest'
import { OrmConnection, type OrmTransaction } from './orm-connection.ts'
import { StatementWatch } from './statement-watch.ts'

const answered = { rows: [], rowCount: 0 }
const withCode = (code: string): Error => Object.assign(new Error(code), { code })

function connection(
  over: Partial<OrmTransaction<string>>,
  { pipelines = true }: { readonly pipelines?: boolean } = {},
) {
  const sent: string[] = []
  const done = (name: string) => async (): Promise<void> => void sent.push(name)
  const transaction: OrmTransaction<string> = {
    ...{ tx: 'tx', lost: undefined, commit: done('commit'), rollback: done('rollback') },
    query: async (text) => {
      sent.push(text)
      return answered
    },
    ...over,
  }
  const own = { query: vi.fn(async (_text: string) => answered) }
  const releaseSlot = vi.fn<() => void>()
  const held = new OrmConnection({
    ...{ transaction, own, releaseSlot, watch: new StatementWatch(), runtime: systemRuntime },
    client: { takesSeveral: true, pipelines },
  })
  held.pid = 7
  return { held, sent, own, releaseSlot }
}

describe('the COMMIT of an ORM that hides its answer', () => {
  // Red when only the ORM is asked: it takes the ROLLBACK of a failed transaction for a commit.
  it.each([true, false])(
    'fails with the statement before it (in one flush: %s)',
    async (pipelines) => {
      const query = async (): Promise<never> => {
        throw withCode('25P02')
      }
      const { held } = connection({ query }, { pipelines })
      await expect(held.send(['set local x = 1', 'commit'], 1_000)).rejects.toMatchObject({
        code: '25P02',
      })
    },
  )

  it('that the server has refused leaves nothing to roll back', async () => {
    const { held, sent } = connection({ commit: () => Promise.reject(withCode('40001')) })
    await expect(held.send(['commit'], 1_000)).rejects.toMatchObject({ code: '40001' })
    expect(await held.send(['rollback'], 1_000)).toMatchObject({ command: 'ROLLBACK' })
    expect(sent).toEqual([])
  })

  // Red when any code of the server counts as its answer: a backend that is shut down may have committed.
  it.each(['57P01', '08006'])('whose connection has ended is no answer (%s)', async (code) => {
    const { held } = connection({ commit: () => Promise.reject(withCode(code)) })
    await expect(held.send(['commit'], 1_000)).rejects.toMatchObject({ code })
    await expect(held.send(['rollback'], 1_000)).rejects.toMatchObject({ code })
  })
})

describe('the statements before COMMIT of an ORM that takes several in a text', () => {
  const texts = ['set local x = 1', 'set constraints all immediate', 'insert a', 'insert b']
  const executing = (fails?: string) => {
    const sent: string[] = []
    const execute = async (text: string): Promise<void> => {
      sent.push(text)
      if (fails !== undefined && text.includes(fails)) throw withCode('23503')
    }
    return { ...connection({ execute }, { pipelines: false }), sent }
  }

  it('travel in two texts: what the handler has deferred, and those of onceward', async () => {
    const { held, sent } = executing()
    await held.send([...texts, 'commit'], 1_000)
    expect(sent).toEqual([texts.slice(0, 2).join('; '), texts.slice(2).join('; ')])
  })

  // Red when all are one text, or are not counted: then every failure is the handler's.
  it.each([
    { fails: 'constraints', completed: 0 },
    { fails: 'insert b', completed: 2 },
  ])('tell by their number whose error it is ($fails)', async ({ fails, completed }) => {
    const { held } = executing(fails)
    await expect(held.send([...texts, 'commit'], 1_000)).rejects.toMatchObject({ code: '23503' })
    expect(held.commands()).toBe(completed)
  })
})

describe('a connection that must not run anything more', () => {
  // Red when the backend of a transaction that has ended is terminated: it serves another one by then.
  it('is ended by the server, unless its transaction is over', async () => {
    const open = connection({ commit: () => new Promise(() => undefined) })
    expect(await open.held.send(['commit'], 1)).toBe(LATE)
    open.held.destroy()
    expect(open.own.query).toHaveBeenCalledWith('select pg_catalog.pg_terminate_backend(7)')
    expect(open.releaseSlot).not.toHaveBeenCalled()
    const over = connection({})
    await over.held.send(['rollback'], 1_000)
    over.held.destroy()
    expect(over.own.query).not.toHaveBeenCalled()
    await vi.waitFor(() => expect(over.releaseSlot).toHaveBeenCalledOnce())
  })

  it('is rolled back where it was only left', async () => {
    const { held, releaseSlot, sent } = connection({})
    held.release()
    await vi.waitFor(() => expect(releaseSlot).toHaveBeenCalledOnce())
    expect(sent).toEqual(['rollback'])
  })
})
