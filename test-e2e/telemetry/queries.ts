/** A Prometheus to ask. */
export interface Asked {
  /** The number of series that a query answers. */
  seriesOf(query: string): Promise<number>
  /** The names of the alerts that fire now. */
  firing(): Promise<readonly string[]>
}

export function ask(url: string): Asked {
  return {
    seriesOf: async (query) => {
      const parameters = new URLSearchParams({ query })
      const response = await fetch(`${url}/api/v1/query?${parameters}`)
      const answer = (await response.json()) as {
        readonly error?: string
        readonly data?: { readonly result: readonly unknown[] }
      }
      if (answer.data === undefined) throw new Error(`${query}: ${answer.error}`)
      return answer.data.result.length
    },
    firing: async () => {
      const response = await fetch(`${url}/api/v1/alerts`)
      const { data } = (await response.json()) as {
        readonly data: {
          readonly alerts: readonly {
            readonly state: string
            readonly labels: { readonly alertname: string }
          }[]
        }
      }
      return data.alerts
        .filter(({ state }) => state === 'firing')
        .map(({ labels }) => labels.alertname)
    },
  }
}
