import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** How an invocation ended. */
export type Invoked =
  | { readonly kind: 'answered'; readonly response: unknown }
  | { readonly kind: 'failed'; readonly errorType: string; readonly errorMessage: string }
  /** The environment was killed: after the function's timeout, or by the test. */
  | { readonly kind: 'killed' }

interface Invocation {
  readonly event: unknown
  readonly timeoutMs: number
  readonly end: (how: Invoked) => void
}

/**
 * A Lambda execution environment: a process with a function, behind a Runtime API. As on Lambda, the process is frozen
 * (SIGSTOP) as soon as it asks for the next invocation, and it thaws for that one.
 */
export class Environment implements AsyncDisposable {
  readonly #server: Server
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown>
  #waiting: ServerResponse | undefined
  #onWaiting = Promise.withResolvers<void>()
  #onThawed = Promise.withResolvers<void>()
  #current: Invocation | undefined
  log = ''

  private constructor(server: Server, bootstrap: string, env: NodeJS.ProcessEnv) {
    this.#server = server
    server.on('request', (request, response) => void this.#serve(request, response))
    const { port } = server.address() as AddressInfo
    this.#child = spawn(process.execPath, [bootstrap], {
      env: { ...process.env, ...env, AWS_LAMBDA_RUNTIME_API: `127.0.0.1:${port}` },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        this.log += chunk.toString()
      })
    }
    this.#exited = once(this.#child, 'exit').then(() => this.#end({ kind: 'killed' }))
  }

  static async start(bootstrap: string, handler: string, config: object): Promise<Environment> {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const env = { _HANDLER: handler, FUNCTION_CONFIG: JSON.stringify(config) }
    return new Environment(server, bootstrap, env)
  }

  /** Resolves while the process is frozen: it has answered, and waits. */
  async frozen(): Promise<void> {
    await this.#onWaiting.promise
  }

  /** Resolves when the process runs the last invocation. */
  async thawed(): Promise<void> {
    await this.#onThawed.promise
  }

  async invoke(event: unknown, timeoutMs = 30_000): Promise<Invoked> {
    this.#onThawed = Promise.withResolvers()
    const exited = this.#exited.then(() => 'exited')
    if ((await Promise.race([this.frozen(), exited])) === 'exited') {
      throw new Error(`The function did not start:\n${this.log}`)
    }
    const { promise, resolve } = Promise.withResolvers<Invoked>()
    this.#current = { event, timeoutMs, end: resolve }
    const timer = setTimeout(() => this.kill(), timeoutMs)
    const response = this.#waiting as ServerResponse
    this.#waiting = undefined
    this.#onWaiting = Promise.withResolvers()
    this.#child.kill('SIGCONT')
    this.#onThawed.resolve()
    response.setHeader('lambda-runtime-aws-request-id', 'request')
    response.setHeader('lambda-runtime-deadline-ms', String(Date.now() + timeoutMs))
    response.end(JSON.stringify(event))
    const invoked = await promise
    clearTimeout(timer)
    return invoked
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url?.endsWith('/next')) {
      this.#child.kill('SIGSTOP')
      this.#waiting = response
      this.#onWaiting.resolve()
      return
    }
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString())
    response.statusCode = 202
    response.end()
    this.#end(
      request.url?.endsWith('/error')
        ? { kind: 'failed', ...(body as { errorType: string; errorMessage: string }) }
        : { kind: 'answered', response: body },
    )
  }

  #end(how: Invoked): void {
    this.#current?.end(how)
    this.#current = undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill()
    await this.#exited
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
