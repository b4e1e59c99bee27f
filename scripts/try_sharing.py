import sys, time
import numpy as np
from dataclasses import replace
from clmembench.benchmarks import discovered
from clmembench.measure.sampling import sample_point
from clmembench.plan.budget import Budget
from clmembench.runtimes import runtime
from clmembench.measure.probe import *
B=Budget(min_time_s=0.0,max_time_s=0.05,max_noise=0.01,slope_ns=5e5,patience=20)
info=runtime("opencl").devices()[0]
feats=set(info.features)
feats|={"tsc","fence","images"} if info.kind=="cpu" else {"ptx","images"}
info=replace(info,features=frozenset(feats))
dev=runtime("opencl").open(info)
print(info.name,info.constant_bytes,info.local_mem_bytes,info.line_bytes,info.compute_units)
b=discovered()["cache_sharing"]
def go(**p):
    t=time.time()
    try: r=sample_point(dev,b.prepare(dev,**p),B,1.0)
    except Exception as e: print(p,"ERR",type(e).__name__,str(e)[:300]); return None
    if r.wrong: print(p,"WRONG",r.wrong); return None
    s=r.series[0]; d={k:v.unpack() for k,v in s.reads.items()}
    print(p, "n",len(s.host_ns), f"{time.time()-t:.2f}s",end=" ")
    return d
paths=["global","readonly","image1d_buffer","constant","constant_array"]
caps={}
for path in paths:
  for loc in ([0,1024,4096,8192,16384,32768,47104] if path=="global" else [0]):
    d=go(question="fit",owner=path,**({"local_bytes":loc} if loc else {}))
    if d:
        m=np.median(d["ticks"],0)/d["steps"][0]
        print(" ".join(f"{x//1024}:{y:.0f}" for x,y in zip(d["bytes"][0],m)))
        if not loc:
            lo=int(np.argmin(m[:4])); ok=m[lo:]<=1.2*m[lo]; bb=d["bytes"][0][lo:]; caps[path]=int(bb[-1] if ok.all() else bb[np.argmin(ok)-1])
print(caps)
for x in caps:
  for y in caps:
    if x!=y:
        d=go(question="paths",owner=x,other=y,array_bytes=int(caps[x]*.85)//1024*1024,other_bytes=int(1.5*max(caps[x],caps[y])))
        if d:
            m=np.median(d["ticks"],0); s=d["steps"][0]
            print(*[f"{v/s[0]:.0f}" for v in m[:9]],"own",f"{m[9]/s[1]:.0f}","other",f"{m[10]/s[2]:.0f}",s)
d=go(question="units")
if d:
    m=np.median(d["ticks"],0).reshape(len(d["units"][0])+1,-1)/d["steps"][0][0]
    l=np.median(d["source_ticks"],0).reshape(-1,2)/d["steps"][0][1]
    print("units",d["units"][0][:20],"laps",l[:6])
    print("control",m[0][:40].round()); 
    for r in range(1,12): print(r-1,m[r][:24].round(), "fast:",[int(k) for k in np.flatnonzero(m[r]<0.6*m[0]) if k!=r-1])
