import type { AddressInfo } from 'node:net'
import { connect, createServer, type Server, type Socket } from 'node:net'

/** Of a hundred connections: so many end before the request arrives, so many before the client has its answer. */
const CUT_BEFORE = 8
const CUT_ANSWER = 12

/** A tunnel between phones and the server: some requests are lost in it, and some answers. */
export class BadNetwork implements AsyncDisposable {
  cut = 0
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(targetPort: number) {
    this.#server = createServer((client) => this.#carry(client, targetPort))
  }

  static async between(targetPort: number): Promise<BadNetwork> {
    const network = new BadNetwork(targetPort)
    await new Promise<void>((resolve) => network.#server.listen(0, '127.0.0.1', resolve))
    return network
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  #carry(client: Socket, targetPort: number): void {
    const luck = Math.random() * 100
    this.#watch(client)
    if (luck < CUT_BEFORE) {
      this.#cut(client)
      return
    }
    const target = connect(targetPort, '127.0.0.1')
    this.#watch(target)
    client.pipe(target)
    target.on('close', () => client.destroy())
    client.on('close', () => target.destroy())
    target.on('data', (bytes) => {
      if (luck < CUT_BEFORE + CUT_ANSWER) this.#cut(client)
      else client.write(bytes)
    })
  }

  #cut(client: Socket): void {
    this.cut += 1
    client.resetAndDestroy()
  }

  #watch(socket: Socket): void {
    this.#sockets.add(socket)
    // A cut connection is the purpose.
    socket.on('error', () => undefined)
    socket.on('close', () => this.#sockets.delete(socket))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }
}
