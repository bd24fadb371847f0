import { until } from '../../until.ts'
import { freePort } from './ports.ts'
import type { Server, ServiceName } from './server.ts'

/** What {@link dockerServer} has to know about one kind of server. */
export interface ContainerSpec<Connection> {
  readonly name: ServiceName
  readonly image: string
  /** Port inside the container. */
  readonly port: number
  readonly command?: readonly string[] | undefined
  /** Gets the port on this machine, which some servers must advertise. */
  environment?(port: number): Record<string, string>
  connection(port: number): Connection
  /** Rejects until the protocol answers. */
  probe(connection: Connection): Promise<unknown>
}

const START_DEADLINE_MS = 150_000

/** Runs one container through Testcontainers and hands it out as a {@link Server}. */
export async function dockerServer<C>(spec: ContainerSpec<C>): Promise<Server<C>> {
  const { GenericContainer, getContainerRuntimeClient } = await import('testcontainers')
  // A port of our own choice: one that Docker chooses would be another after a restart.
  const port = await freePort()
  const container = await new GenericContainer(spec.image)
    .withExposedPorts({ container: spec.port, host: port })
    .withEnvironment(spec.environment?.(port) ?? {})
    .withCommand([...(spec.command ?? [])])
    .start()
  const client = await getContainerRuntimeClient()
  const engine = client.container.getById(container.getId())
  const connection = spec.connection(port)
  const ready = (): Promise<unknown> =>
    until(() => spec.probe(connection).then(() => true), {
      what: `${spec.image} to answer on port ${port}`,
      deadlineMs: START_DEADLINE_MS,
      everyMs: 100,
    })
  const running = async (): Promise<boolean> => (await engine.inspect()).State.Running
  const stop = async (): Promise<void> => {
    await container.stop()
  }
  await ready()
  return {
    name: spec.name,
    connection,
    how: 'docker',
    canKill: true,
    kill: async (signal = 'SIGKILL') => {
      await engine.kill({ signal })
      if (signal !== 'SIGSTOP' && signal !== 'SIGCONT') await engine.wait()
    },
    restart: async () => {
      if (await running()) await engine.stop()
      await engine.start()
      await ready()
    },
    stop,
    [Symbol.asyncDispose]: stop,
  }
}
